"""Inputs of GPU measurements.

They are the paper's networks without weights, the convolutions that cuDNN computes in
these networks, and cuDNN's plans for the convolutions. The plans were queried without a
GPU. tests/gpu/make_gpu_data.py and tests/gpu/record.py make the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent


def _network(name: str) -> str:
    return str(_HERE / "networks" / f"{name}.json")


# The networks in the order in which they are measured.
SMALLEST = _network("squeezenet")
NETWORKS = (_network("inception_v3"), SMALLEST)
LARGE_NETWORKS = (_network("randwire"), _network("nasnet_a_large"))
CONVOLUTIONS = str(_HERE / "convolutions.json")
RECORDINGS = str(_HERE / "recordings")
# For each dtype, the arithmetic that channels are padded for. The padding, and so the
# convolutions, depend on this arithmetic. "exact" is float32 without TF32.
PADDED_FOR = {
    "float32": "tf32",
    "exact": "exact",
    "float16": "half",
    "bfloat16": "half",
}
# Key of the convolutions that write a part of a larger tensor.
IN_CONCATS = "concats"


def recording(directory: str, device: str) -> Path | None:
    """Returns the recording whose name is in the GPU's name, or None."""
    for path in sorted(Path(directory).glob("*.json")):
        if re.search(rf"\b{re.escape(path.stem)}\b", device, re.IGNORECASE):
            return path
    return None


def block(one: Mapping[str, Any], batch: int, dtype: str) -> dict[str, Any]:
    """Returns a convolution as a block.

    Args:
      one: {"inputs": shapes, "operator": …}. A convolution that writes a part of a
        larger tensor also has "rest", the tensor's number of other channels, and
        "size", its height and width.
      batch: number of images.
      dtype: a key of PADDED_FOR.
    """
    inputs = [[batch, *shape[1:]] for shape in one["inputs"]]
    references = [-1 - i for i in range(len(inputs))]
    operators = [{**one["operator"], "inputs": references}]
    if "rest" in one:
        operators.append({"type": "concat", "inputs": [0, -1 - len(inputs)]})
        inputs.append([batch, *one["size"], one["rest"]])
    return {
        "version": 1,
        "dtype": "float32" if dtype == "exact" else dtype,
        "inputs": inputs,
        "operators": operators,
        "outputs": [len(operators) - 1],
    }


def schedule(block: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON of a schedule with one stage, one group of all operators."""
    group = list(range(len(block["operators"])))
    stage = {"strategy": "concurrent", "groups": [group]}
    return {"version": 1, "stages": [stage]}
