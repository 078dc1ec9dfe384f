"""Creates cuDNN's descriptors by ctypes, from tensors to a plan. Each descriptor gets
all attributes that the engine sets, or all except one.

"descriptors.py DIRECTORY" prints, for each attribute, the status codes of the cuDNN in
this directory if the attribute is left out.
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cuda_helpers

SUCCESS = 0
BAD_PARAMETER = range(2000, 3000)  # CUDNN_STATUS_BAD_PARAM and its subtypes

_KINDS = {
    "INT64": ctypes.c_int64,
    "FLOAT": ctypes.c_float,
    "DOUBLE": ctypes.c_double,
    "BOOLEAN": ctypes.c_bool,
    "HANDLE": ctypes.c_void_p,
    "VOID_PTR": ctypes.c_void_p,
    "BACKEND_DESCRIPTOR": ctypes.c_void_p,
}


@functools.cache
def _constants() -> dict[str, int]:
    """The values of all enumerators of cudnn_graph.h, by name without "CUDNN_"."""
    headers = (d / "cudnn_graph.h" for d in cuda_helpers.include_directories())
    text = next(header for header in headers if header.exists()).read_text()
    text = re.sub(r"/\*.*?\*/|\bCUDNN_DEPRECATED_ENUM\b|//[^\n]*", "", text, flags=re.S)
    found: dict[str, int] = {}
    for body in re.findall(r"typedef enum\s*\{(.*?)\}", text, flags=re.S):
        value = -1
        for name, _, text in (item.partition("=") for item in body.split(",")):
            known = found.get(text.strip().removeprefix("CUDNN_"))
            value = value + 1 if not text else int(text, 0) if known is None else known
            found[name.strip().removeprefix("CUDNN_")] = value
    return found


def _tensor(uid: int, *dims: int, virtual: bool = False) -> dict[str, Any]:
    """The attributes of a tensor of four dimensions with channels last."""
    _, c, h, w = dims
    return {
        "TENSOR_DATA_TYPE": ("DATA_TYPE", "DATA_FLOAT"),
        "TENSOR_DIMENSIONS": ("INT64", *dims),
        "TENSOR_STRIDES": ("INT64", h * w * c, 1, w * c, c),
        "TENSOR_UNIQUE_ID": ("INT64", uid),
        "TENSOR_BYTE_ALIGNMENT": ("INT64", 16),
        "TENSOR_IS_VIRTUAL": ("BOOLEAN", virtual),
    }


def _spatial(what: str, value: int) -> dict[str, Any]:
    return {f"CONVOLUTION_{what}": ("INT64", value, value)}


def _convolution(kind: str, image: str, filters: str, result: str) -> dict[str, Any]:
    prefix = f"OPERATION_CONVOLUTION_{kind}_"
    source, target = ("X", "Y") if kind == "FORWARD" else ("DY", "DX")
    return {
        f"{prefix}ALPHA": ("FLOAT", 1.0),
        f"{prefix}BETA": ("FLOAT", 0.0),
        f"{prefix}CONV_DESC": ("BACKEND_DESCRIPTOR", "convolution"),
        f"{prefix}{source}": ("BACKEND_DESCRIPTOR", image),
        f"{prefix}W": ("BACKEND_DESCRIPTOR", filters),
        f"{prefix}{target}": ("BACKEND_DESCRIPTOR", result),
    }


# The descriptors of two graphs: relu(conv(x, w)), and a single transposed convolution.
_FORWARD = "OPERATION_CONVOLUTION_FORWARD"
_BACKWARD = "OPERATION_CONVOLUTION_BACKWARD_DATA"
DESCRIPTORS: dict[str, tuple[str, dict[str, Any]]] = {
    "x": ("TENSOR", _tensor(1, 1, 32, 8, 8)),
    "w": ("TENSOR", _tensor(2, 32, 32, 3, 3)),
    "between": ("TENSOR", _tensor(100, 1, 32, 6, 6, virtual=True)),
    "y": ("TENSOR", _tensor(3, 1, 32, 6, 6)),
    "convolution": (
        "CONVOLUTION",
        {
            "CONVOLUTION_COMP_TYPE": ("DATA_TYPE", "DATA_FLOAT"),
            "CONVOLUTION_CONV_MODE": ("CONVOLUTION_MODE", "CROSS_CORRELATION"),
            "CONVOLUTION_SPATIAL_DIMS": ("INT64", 2),
            **_spatial("DILATIONS", 1),
            **_spatial("FILTER_STRIDES", 1),
            **_spatial("PRE_PADDINGS", 0),
            **_spatial("POST_PADDINGS", 0),
        },
    ),
    "convolve": (_FORWARD, _convolution("FORWARD", "x", "w", "between")),
    "transposed": (_BACKWARD, _convolution("BWD_DATA", "y", "w", "x")),
    "relu": (
        "POINTWISE",
        {
            "POINTWISE_MODE": ("POINTWISE_MODE", "POINTWISE_RELU_FWD"),
            "POINTWISE_MATH_PREC": ("DATA_TYPE", "DATA_FLOAT"),
        },
    ),
    "activate": (
        "OPERATION_POINTWISE",
        {
            "OPERATION_POINTWISE_PW_DESCRIPTOR": ("BACKEND_DESCRIPTOR", "relu"),
            "OPERATION_POINTWISE_XDESC": ("BACKEND_DESCRIPTOR", "between"),
            "OPERATION_POINTWISE_YDESC": ("BACKEND_DESCRIPTOR", "y"),
        },
    ),
    "graph": (
        "OPERATIONGRAPH",
        {
            "OPERATIONGRAPH_HANDLE": ("HANDLE", "handle"),
            "OPERATIONGRAPH_OPS": ("BACKEND_DESCRIPTOR", "convolve", "activate"),
        },
    ),
    "heuristics": (
        "ENGINEHEUR",
        {
            "ENGINEHEUR_OPERATION_GRAPH": ("BACKEND_DESCRIPTOR", "graph"),
            "ENGINEHEUR_MODE": ("HEUR_MODE", "HEUR_MODE_A"),
        },
    ),
    "plan": (
        "EXECUTION_PLAN",
        {
            "EXECUTION_PLAN_HANDLE": ("HANDLE", "handle"),
            "EXECUTION_PLAN_ENGINE_CONFIG": ("BACKEND_DESCRIPTOR", "proposal"),
        },
    ),
    "pack": (
        "VARIANT_PACK",
        {
            "VARIANT_PACK_UNIQUE_IDS": ("INT64", 1, 2, 3),
            "VARIANT_PACK_DATA_POINTERS": ("VOID_PTR", 256, 512, 1024),
            "VARIANT_PACK_WORKSPACE": ("VOID_PTR", 2048),
        },
    ),
}
ATTRIBUTES = sorted({name for _, given in DESCRIPTORS.values() for name in given})
# Attributes that the fake does not require. For example, a plan takes its handle from
# its engine configuration; only a plan that is loaded from JSON needs its own.
OPTIONAL = {
    "TENSOR_IS_VIRTUAL",
    "EXECUTION_PLAN_HANDLE",
    "VARIANT_PACK_WORKSPACE",
}
REQUIRED = set(ATTRIBUTES) - OPTIONAL
# If this attribute is missing, cuDNN 9.28 ends the process without a message.
ENDS_THE_PROCESS = "EXECUTION_PLAN_ENGINE_CONFIG"


def number(attribute: str) -> int:
    return constant(f"ATTR_{attribute}")


def constant(name: str) -> int:
    """The value of an enumerator of cudnn_graph.h; `name` lacks "CUDNN_"."""
    return _constants()[name]


class Cudnn:
    """The cuDNN library at a path. Its functions need a current CUDA context."""

    def __init__(self, path: Path):
        self._library = ctypes.CDLL(str(path))

    def statuses(self, without: str = "") -> dict[str, int]:
        """The results of finalizing each descriptor, up to the first that fails.

        Args:
          without: the attribute that is left out; by default, none.
        """
        handle = ctypes.c_void_p()
        assert self._library.cudnnCreate(ctypes.byref(handle)) == SUCCESS
        made = {"handle": handle}
        found = {}
        try:
            for name, (kind, attributes) in DESCRIPTORS.items():
                if kind == "EXECUTION_PLAN":
                    made["proposal"] = self._proposal(made["heuristics"])
                    if not made["proposal"]:
                        break
                given = {k: v for k, v in attributes.items() if k != without}
                made[name] = self._descriptor(kind)
                found[name] = self._finalize(made[name], given, made)
                if found[name] != SUCCESS:
                    break
        finally:
            del made["handle"]
            for one in reversed(made.values()):
                self._library.cudnnBackendDestroyDescriptor(one)
            self._library.cudnnDestroy(handle)
        return found

    def _descriptor(self, kind: str) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        number = _constants()[f"BACKEND_{kind}_DESCRIPTOR"]
        create = self._library.cudnnBackendCreateDescriptor
        assert create(number, ctypes.byref(made)) == SUCCESS
        return made

    def _finalize(self, descriptor, attributes: dict[str, Any], made: dict) -> int:
        for name, (kind, *values) in attributes.items():
            status = self._set(descriptor, name, kind, [made.get(v, v) for v in values])
            if status != SUCCESS:
                return status
        return self._library.cudnnBackendFinalize(descriptor)

    def _set(self, descriptor, name: str, kind: str, values: Sequence[Any]) -> int:
        numbers = _constants()
        values = [getattr(v, "value", v) for v in values]
        values = [numbers[v] if isinstance(v, str) else v for v in values]
        array = (_KINDS.get(kind, ctypes.c_int) * len(values))(*values)
        return self._library.cudnnBackendSetAttribute(
            descriptor,
            number(name),
            numbers[f"TYPE_{kind}"],
            ctypes.c_int64(len(values)),
            array,
        )

    def _proposal(self, heuristics) -> ctypes.c_void_p:
        """The first engine configuration that heuristics propose; null: there is
        none."""
        config = self._descriptor("ENGINECFG")
        count = ctypes.c_int64()
        status = self._library.cudnnBackendGetAttribute(
            heuristics,
            number("ENGINEHEUR_RESULTS"),
            _constants()["TYPE_BACKEND_DESCRIPTOR"],
            ctypes.c_int64(1),
            ctypes.byref(count),
            ctypes.byref(config),
        )
        assert status == SUCCESS
        return config if count.value > 0 else ctypes.c_void_p()


def main(directory: Path) -> None:
    ctypes.CDLL(str(directory / "libcuda.so.1"), ctypes.RTLD_GLOBAL)
    cudnn = Cudnn(directory / "libcudnn.so.9")
    names = ["", *(name for name in ATTRIBUTES if name != ENDS_THE_PROCESS)]
    print(json.dumps({name: cudnn.statuses(name) for name in names}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
