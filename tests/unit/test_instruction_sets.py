"""One function selects the instruction set of every kernel.

The environment variable ONEDNN_MAX_CPU_ISA limits the choice.

tests/integration/test_cc.py runs dispatch_test.cc, which checks the choice itself.
"""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from activation_cases import CASES, IDS, numbers
from commands import run_python

from ios_tf.native import engine

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "cc" / "engine" / "cpu" / "kernels"
# Numbers of the ELF format.
SYMBOL_TABLES, RELOCATIONS = (2, 11), 4  # types of sections
INDIRECT_FUNCTION, INDIRECT_RELOCATION = 10, 37  # types of their entries

CHANNELS = 32
IMAGE = [2, 6, 7, CHANNELS]
CONVOLUTION = {"type": "conv2d", "padding": "SAME", "filters": CHANNELS}
FILTER = [3, 3, CHANNELS, CHANNELS]
PER_CHANNEL = [[CHANNELS], [CHANNELS]]
# An operator for each source whose results depend on fused multiplications: the
# operator, the shapes of its weights, and its algorithm.
OPERATORS = {
    "activations": ({"type": "activation", "activation": "tanh"}, [], None),
    "depthwise_rows": (
        {**CONVOLUTION, "kernel": [3, 3], "groups": CHANNELS},
        [[3, 3, 1, CHANNELS]],
        "rows",
    ),
    "elementwise": ({"type": "scale"}, PER_CHANNEL, None),
    "gemm": ({**CONVOLUTION, "kernel": [1, 1]}, [[1, 1, *FILTER[2:]]], "gemm"),
    "normalization": (
        {"type": "normalize", "whole_images": True, "epsilon": 1e-3},
        PER_CHANNEL,
        None,
    ),
    "resize": (
        {"type": "resize", "interpolation": "bilinear", "factors": [3, 3]},
        [],
        None,
    ),
    "spatial": (
        {"type": "lrn", "depth_radius": 2, "normalization": [1, 0.3, 0.5]},
        [],
        None,
    ),
    "winograd": ({**CONVOLUTION, "kernel": [3, 3]}, [FILTER], "winograd_2x2"),
}


def results():
    """The results of all operators and activations in this process."""
    rng = np.random.default_rng(5)
    image = rng.normal(size=IMAGE).astype(np.float32)
    found = {}
    cases = {
        name: ({"type": "activation", **case}, [], None)
        for name, case in zip(IDS, CASES, strict=True)
    }
    for name, (operator, shapes, algorithm) in {**OPERATORS, **cases}.items():
        block = {
            "version": 1,
            "inputs": [IMAGE],
            "operators": [{"inputs": [-1], **operator}],
            "outputs": [0],
        }
        stage = {"strategy": "concurrent", "groups": [[0]]}
        schedule = {"version": 1, "stages": [stage]}
        if algorithm:
            schedule["algorithms"] = {algorithm: [0]}
        weights = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
        x = numbers(*IMAGE) if name in cases else image
        (found[name],) = engine.Program(block, schedule, weights).run([x])
    return found


def test_kernels_obey_the_limit(tmp_path):
    """Only AVX2 and AVX-512 fuse multiplications and additions, which rounds once."""
    by_isa = {}
    for isa in ("SSE41", "AVX2"):
        file = tmp_path / f"{isa}.npz"
        code = (
            "import test_instruction_sets as t, numpy as np\n"
            f"np.savez({str(file)!r}, **t.results())\n"
            "from ios_tf.native import engine\n"
            f"open({str(file)!r} + '.device', 'w').write(engine.device_fingerprint())\n"
        )
        run_python("-c", code, ONEDNN_MAX_CPU_ISA=isa)
        by_isa[isa] = np.load(file)
    if "AVX2" not in (tmp_path / "AVX2.npz.device").read_text():
        pytest.skip("this processor has no AVX2")
    narrow, wide = by_isa["SSE41"], by_isa["AVX2"]
    assert {*narrow} == {*OPERATORS, *IDS}
    for name in narrow:
        np.testing.assert_allclose(narrow[name], wide[name], rtol=1e-5, atol=1e-5)
    same = [name for name in OPERATORS if np.array_equal(narrow[name], wide[name])]
    assert not same


def sections(elf):
    """The type, entry size and content of each section of a 64-bit library."""
    (start,) = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    for i in range(count):
        header = struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size)
        _, kind, _, _, offset, length, _, _, _, entry = header
        if entry:
            yield kind, elf[offset : offset + length]


def test_the_loader_selects_no_code():
    """The dynamic loader selects no code, as it would for GCC's target_clones.

    The loader looks only at the processor, and would ignore ONEDNN_MAX_CPU_ISA.
    """
    symbols = relocations = 0
    for kind, content in sections((engine.LIBRARIES / "libios_engine.so").read_bytes()):
        if kind in SYMBOL_TABLES:
            for _, info, *_ in struct.iter_unpack("<IBBHQQ", content):
                assert info & 0xF != INDIRECT_FUNCTION
                symbols += 1
        if kind == RELOCATIONS:
            for _, info, _ in struct.iter_unpack("<QQq", content):
                assert info & 0xFFFFFFFF != INDIRECT_RELOCATION
                relocations += 1
    assert symbols and relocations


def test_only_one_file_names_instruction_sets():
    pattern = r"target_clones|\btarget\s*\(\s*\(?\"|arch=|__AVX|__FMA__|cpu_supports"
    files = [*KERNELS.rglob("*.h"), *KERNELS.rglob("*.cc")]
    named = [f.name for f in files if re.search(pattern, f.read_text())]
    assert named == ["foreach_target.h"]


def test_sources_that_are_compiled_for_each_instruction_set():
    """Each source has its own path in a macro, and its kernels include only *-inl.h."""
    sources = {
        path: text
        for path in KERNELS.glob("*.cc")
        if "IOS_KERNEL_SOURCE" in (text := path.read_text())
    }
    assert {path.stem for path in sources} >= set(OPERATORS)
    for path, text in sources.items():
        (name,) = re.findall(r'^#define IOS_KERNEL_SOURCE "(.*)"$', text, re.M)
        assert ROOT / name == path
        kernels = text.split("#ifdef IOS_TARGET")[1].split("#else  // compiled once")[0]
        includes = re.findall(r'#include ["<](.*)[">]', kernels)
        assert all(file.endswith("-inl.h") for file in includes), path
