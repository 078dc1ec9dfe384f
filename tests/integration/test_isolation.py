"""The engine's oneDNN beside other libraries that define the same names, as in a server
that TensorFlow is linked into."""

import json
import re
import signal
import subprocess

import numpy as np
import pytest
from commands import run_python
from convolution_cases import by_definition, conv_block, random_weights, sequential
from native_build import LIBRARIES, ROOT

HEADER = ROOT / "cc/engine/cpu/onednn/onednn.h"
OPENMP = ROOT / "cc/engine/cpu/threads/openmp.cc"
CHILD = """
import json, sys
import numpy as np
from ios_tf.native import engine
block, schedule = (json.loads(text) for text in sys.argv[1:3])
data = np.load(sys.argv[3])
weights = [data[name] for name in data.files if name != "x"]
np.save(sys.argv[4], engine.Program(block, schedule, weights).run([data["x"]])[0])
"""
# Libraries that every Linux system has, and TensorFlow's own.
SYSTEM = {
    *("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"),
    *("ld-linux-x86-64.so.2", "libgcc_s.so.1", "libstdc++.so.6"),
    "libtensorflow_framework.so.2",
}


def original_names() -> list[str]:
    """Returns the original names of the functions of oneDNN and libgomp.

    Other libraries may define functions with these names. The engine's own copies have
    other names.
    """
    return [
        *re.findall(r"^#define (dnnl_\w+)", HEADER.read_text(), re.MULTILINE),
        *re.findall(r"^\w+ ios_((?:GOMP|omp)_\w+)\(", OPENMP.read_text(), re.MULTILINE),
    ]


@pytest.fixture(scope="module")
def interposer(tmp_path_factory):
    """A library whose functions have the original names, and abort."""
    directory = tmp_path_factory.mktemp("interposer")
    names = original_names()
    assert {"dnnl_primitive_create", "dnnl_version", "GOMP_parallel_start"} < {*names}
    source = directory / "interposer.c"
    source.write_text(
        "#include <stdlib.h>\n" + "".join(f"void {n}() {{ abort(); }}\n" for n in names)
    )
    library = directory / "libdnnl.so.3"
    command = ["g++", "-x", "c", "-w", "-shared", "-fPIC", "-o", library, source]
    subprocess.run([*command, f"-Wl,-soname,{library.name}"], check=True)
    return library


def test_the_interposing_library_is_found_first(interposer):
    """Checks the test itself: oneDNN's names refer to the interposing library."""
    code = "import ctypes; ctypes.CDLL(None).dnnl_version()"
    run_python("-c", code, status=-signal.SIGABRT, LD_PRELOAD=interposer)


def test_another_onednn_and_openmp_are_not_called(interposer, tmp_path):
    rng = np.random.default_rng(0)
    block = conv_block((2, 9, 9, 16), 24, bias=True)
    weights = random_weights(block, rng)
    x = rng.normal(size=(2, 9, 9, 16)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, filters=weights[0], bias=weights[1])
    texts = json.dumps(block), json.dumps(sequential(block))
    files = tmp_path / "data.npz", tmp_path / "output.npy"
    run_python("-c", CHILD, *texts, *files, LD_PRELOAD=interposer)
    expected = by_definition(x, *weights, ((1, 1), (1, 1)), None)
    atol = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(np.load(files[1]), expected, rtol=0, atol=atol)


@pytest.mark.parametrize(
    "name", ["libios_dnnl.so", "libios_engine.so", "libios_tf_ops.so"]
)
def test_libraries_need_only_system_libraries_and_each_other(name):
    text = _output("readelf", "-d", LIBRARIES / name)
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))
    assert needed <= SYSTEM | {"libios_dnnl.so", "libios_engine.so"}


@pytest.mark.parametrize("name", ["libios_dnnl.so", "libios_engine.so"])
def test_no_symbol_has_a_name_of_another_onednn_or_openmp(name):
    symbols = {
        line.split()[-1].partition("@")[0]
        for line in _output("nm", "-D", LIBRARIES / name).splitlines()
    }
    assert any("ios_dnnl" in symbol for symbol in symbols)
    others = re.compile(r"(dnnl_|GOMP_|omp_|_ZNK?4dnnl)")
    assert [symbol for symbol in symbols if others.match(symbol)] == []


def _output(*command: object) -> str:
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=True
    ).stdout
