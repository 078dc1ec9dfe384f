"""The real NVRTC, which needs no GPU, compiles the text of the CUDA kernels. All
families are compiled for all dtypes and several architectures, and must not spill
registers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from kernel_variants import (
    DTYPES,
    VARIANTS,
    activations,
    macros_of,
    options,
    texts,
    widest,
)
from nvrtc import INSTALL, Nvrtc, find

pytestmark = pytest.mark.one_core

ARCHITECTURES = [70, 80, 90]


@pytest.fixture(scope="module")
def nvrtc() -> Iterator[Nvrtc]:
    path = find()
    if path is None:
        pytest.skip(f"no NVRTC: {INSTALL}")
    compiler = Nvrtc(path)
    yield compiler
    compiler.close()


def check(
    nvrtc,
    text: str,
    kernels,
    macros,
    architecture: int,
    frame: int = 0,
    spilled: int = 0,
) -> None:
    image, log = nvrtc.compile(text, options(macros, architecture))
    assert image[:4] == b"\x7fELF"
    compiled = set(re.findall(r"Compiling entry function '(\w+)'", log))
    assert compiled == set(kernels)
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", log)
    assert spills == [(str(frame), str(spilled))] * len(kernels), log


# For older architectures, only one dtype is compiled, and only the windows that need
# the most registers. The oldest architecture has no instructions for bfloat16.
CASES = [
    (variant, dtype, architecture)
    for variant, dtype, architecture in itertools.product(
        VARIANTS, DTYPES, ARCHITECTURES
    )
    if architecture == 90
    or (
        dtype == {70: "bfloat16", 80: "float16"}[architecture]
        and not (VARIANTS[variant][0] == "kWindowSource" and variant.endswith("_1"))
    )
]


# Kernels whose vectors have one element need fewer registers. For each dtype, they
# differ only in how elements are loaded and stored, which all variants share. So each
# variant is compiled for one of the dtypes.
DTYPE_OF_SINGLE_ELEMENTS = dict(zip(VARIANTS, itertools.cycle(DTYPES), strict=False))


@pytest.mark.parametrize(("variant", "dtype", "architecture"), CASES)
def test_compiles(variant, dtype, architecture, nvrtc):
    source, kernels, _ = VARIANTS[variant]
    vectors = [widest(dtype)]
    if architecture == 90 and dtype == DTYPE_OF_SINGLE_ELEMENTS[variant]:
        vectors.append(1)
    for vector in vectors:
        macros = macros_of(variant, dtype, vector)
        check(nvrtc, texts()[source], kernels, macros, architecture)


# The kernels of each text that need the most registers.
LARGEST = ["long_sum", "binary_3_00", "maximum", "softmax", "normalization_0"]
LARGEST += ["resize_1_1", "lrn", "pool3_1_4", "depthwise5_1_4", "depthwise7_1_4"]
# The bytes of stack and of spilled registers, for kernels that need any.
SPILLS = {("depthwise7_1_4", 120): (8, 4)}


@pytest.mark.parametrize("architecture", [75, 89, 100, 120])
def test_compiles_for_other_architectures(architecture, nvrtc):
    for variant in LARGEST:
        source, kernels, _ = VARIANTS[variant]
        macros = macros_of(variant, "float16", widest("float16"))
        memory = SPILLS.get((variant, architecture), (0, 0))
        check(nvrtc, texts()[source], kernels, macros, architecture, *memory)


@pytest.mark.parametrize("activation", activations())
def test_activations_compile(activation, nvrtc):
    expression = activations()[activation]
    macros = {"IOS_DTYPE": 1, "IOS_VECTOR": 8, "IOS_ACTIVATION": expression}
    macros |= {"IOS_TERMS": 1, "IOS_BIAS": 0}
    macros |= {"IOS_ALPHA": -1082130432, "IOS_BETA": 1065353216}  # bits of -1 and 1
    # For large arguments, sinf() uses a table on the stack.
    frame = 32 if activation == "sin" else 0
    check(nvrtc, texts()["kElementwiseSource"], ["Sum"], macros, 90, frame)


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_copies_compile(width, nvrtc):
    macros = {"IOS_DTYPE": 0, "IOS_VECTOR": 1, "IOS_WIDTH": width}
    check(nvrtc, texts()["kCopySource"], ["Copy", "Pad"], macros, 90)
