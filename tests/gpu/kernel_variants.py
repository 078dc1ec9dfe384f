"""The texts of the CUDA kernels as the engine composes them, and all kinds of
macros."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

CC = Path(__file__).resolve().parents[2] / "cc"
CUDA = CC / "engine/cuda/kernels"
ELEMENT_BYTES = {0: 4, 1: 2, 2: 2}  # keyed by the value of IOS_DTYPE
DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}

# For each variant: the name of the text, the kernels in it, and the macros other than
# those for the dtype, the vector size and the activation.
VARIANTS = {
    "sum": ("kElementwiseSource", ["Sum"], {"IOS_TERMS": 3, "IOS_BIAS": 1}),
    "long_sum": ("kElementwiseSource", ["Sum"], {"IOS_TERMS": 32, "IOS_BIAS": 0}),
    "scale": ("kElementwiseSource", ["Scale"], {}),
    **{
        f"binary_{function}_{x}{y}": (
            "kElementwiseSource",
            ["Binary", "Scale"],
            {"IOS_FUNCTION": function, "IOS_X_SCALAR": x, "IOS_Y_SCALAR": y},
        )
        for function, x, y in [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 0, 0)]
        + [(function, 0, 0) for function in (4, 5, 6, 7)]
    },
    "maximum": (
        "kReductionSource",
        ["GlobalPool"],
        {"IOS_THREADS": 256, "IOS_MAXIMUM": 1},
    ),
    "average": (
        "kReductionSource",
        ["GlobalPool"],
        {"IOS_THREADS": 256, "IOS_MAXIMUM": 0},
    ),
    **{
        f"normalization_{maximum}": (
            "kNormalizationSource",
            ["ReduceChannels", "Normalize", "ShuffleChannels"],
            {"IOS_THREADS": 256, "IOS_MAXIMUM": maximum, "IOS_VECTOR": 1},
        )
        for maximum in (0, 1)
    },
    "softmax": ("kReductionSource", ["Softmax"], {"IOS_THREADS": 256}),
}
for interpolation, coordinates in [(0, 2), (1, 1)]:
    macros = {"IOS_INTERPOLATION": interpolation, "IOS_COORDINATES": coordinates}
    name = f"resize_{interpolation}_{coordinates}"
    VARIANTS[name] = ("kSpatialSource", ["Resize"], macros)
for to_depth in range(2):
    macros = {"IOS_TO_DEPTH": to_depth}
    VARIANTS[f"move_depth_{to_depth}"] = ("kSpatialSource", ["MoveDepth"], macros)
VARIANTS["lrn"] = ("kSpatialSource", ["Lrn"], {})
VARIANTS["spin"] = ("kTimingSource", ["Spin"], {})


def window(kind: int, strip: int, **macros: int):
    """A variant of the kernel for windows.

    `kind` is 0 for a depthwise convolution, 1 for a maximum, and 2 for an average.
    """
    depthwise = int(kind == 0)
    return (
        "kWindowSource",
        ["Window"],
        {
            "IOS_WINDOW": kind,
            "IOS_STRIP": strip,
            "IOS_PRE_RELU": depthwise,
            "IOS_BIAS": depthwise,
            "IOS_RESIDUAL": depthwise,
            **macros,
        },
    )


def known(size: int, stride: int) -> dict[str, int]:
    return {
        "IOS_KERNEL_HEIGHT": size,
        "IOS_KERNEL_WIDTH": size,
        "IOS_STRIDE": stride,
    }


for stride in (1, 2):
    VARIANTS[f"any_window_{stride}"] = window(stride % 2, 1)
    for strip in (1, 2, 4)[: 4 - stride]:
        VARIANTS[f"pool3_{stride}_{strip}"] = window(stride, strip, **known(3, stride))
        for size in (3, 5, 7):
            VARIANTS[f"depthwise{size}_{stride}_{strip}"] = window(
                0, strip, **known(size, stride)
            )


def unrolling(macros: dict[str, int]) -> dict[str, int]:
    """The macros that window_kernel.cc sets depending on a window's registers."""
    if "IOS_STRIP" not in macros:
        return {}
    vector, strip = macros["IOS_VECTOR"], macros["IOS_STRIP"]
    size = macros.get("IOS_KERNEL_HEIGHT", 1)
    words = vector * ELEMENT_BYTES[macros["IOS_DTYPE"]] // 4
    if strip == 1:
        unroll = size * size * words <= 110
    else:
        unroll = size <= 3 and strip * vector <= 16
    blocks = 1 if strip == 1 else 2
    return {"IOS_UNROLL": size if unroll else 1, "IOS_BLOCKS": blocks}


@functools.cache
def texts() -> dict[str, str]:
    """The sources as the engine composes them, by the names of their last parts."""
    header = (CUDA / "kernel_params.h").read_text()
    begin = header.index("#define IOS_CUDA_KERNEL_PARAMS  ")
    lines = header[begin : header.index("\nnamespace", begin)].splitlines()[1:]
    parts = {}
    for path in CUDA.glob("kernel_source_*.cc"):
        for name, text in re.findall(
            r'const char (\w+)\[\] = R"cuda\((.*?)\)cuda"', path.read_text(), re.DOTALL
        ):
            parts[name] = text
    parameters = "\n".join(line.removesuffix("\\") for line in lines) + "\n"
    shared = parameters + parts["kCommonSource"] + parts["kActivationsSource"]
    return {name: shared + text for name, text in parts.items()}


@functools.cache
def activations() -> dict[str, str]:
    """The CUDA expressions of all activations, by name."""
    table = (CC / "core/ops/activation.def").read_text()
    rows = re.findall(r"^IOS_ACTIVATION\(.*?\)$", table, re.DOTALL | re.MULTILINE)
    texts = [re.findall(r'"(.*?)"', row) for row in rows]
    return {name: expression for name, expression, _ in texts}


def options(macros: Mapping[str, int | str], architecture: int) -> list[str]:
    """The engine's options for NVRTC, and the option that reports used registers."""
    return [
        f"--gpu-architecture=sm_{architecture}",
        "--std=c++17",
        "--ptxas-options=-v",
        *(f"-D{name}={value}" for name, value in macros.items()),
    ]


def macros_of(variant: str, dtype: str, vector: int) -> dict[str, int]:
    """All macros of a variant. `vector` is the number of elements of a vector."""
    macros = {"IOS_DTYPE": DTYPES[dtype], "IOS_VECTOR": vector}
    macros |= VARIANTS[variant][2]
    return macros | unrolling(macros)


def widest(dtype: str) -> int:
    """The number of elements in the widest vector, which has 16 bytes."""
    return 16 // ELEMENT_BYTES[DTYPES[dtype]]
