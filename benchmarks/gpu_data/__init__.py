"""Inputs of GPU measurements: the paper's networks without weights, the convolutions
that cuDNN computes in them, and the plans that cuDNN has for these.

cuDNN was asked without a GPU. tests/gpu/make_gpu_data.py and tests/gpu/record.py make
the files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
# In order of worth; the last one is the smallest.
NETWORKS = tuple(
    str(_HERE / "networks" / f"{name}.json")
    for name in ("inception_v3", "randwire", "nasnet_a_large", "squeezenet")
)
CONVOLUTIONS = str(_HERE / "convolutions.json")
RECORDINGS = str(_HERE / "recordings")
# Tensors get channels for what multiplies them, so that convolutions differ: by dtype,
# where "exact" is float32 without TF32.
PADDED_FOR = {
    "float32": "tf32",
    "exact": "exact",
    "float16": "half",
    "bfloat16": "half",
}
# Of convolutions that write a part of a larger tensor.
IN_CONCATS = "concats"


def recording(directory: str, device: str) -> Path | None:
    """The file of a GPU's recording, by its name; None if there is none."""
    for path in sorted(Path(directory).glob("*.json")):
        if re.search(rf"\b{re.escape(path.stem)}\b", device, re.IGNORECASE):
            return path
    return None


def block(one: Mapping[str, Any], batch: int, dtype: str) -> dict[str, Any]:
    """A convolution as a block, for so many images of a dtype of PADDED_FOR.

    Args:
      one: {"inputs": shapes, "operator": …}; "rest": how many channels the tensor has
        that it writes a part of, beside its own, and "size": that tensor's height and
        width.
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
    """The JSON of its schedule of one stage, in which its operators are a group."""
    group = list(range(len(block["operators"])))
    stage = {"strategy": "concurrent", "groups": [group]}
    return {"version": 1, "stages": [stage]}
