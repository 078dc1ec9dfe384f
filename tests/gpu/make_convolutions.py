"""make_convolutions.py NETWORK.json ... : writes convolutions.json, the different
convolutions that cuDNN computes in networks of `ios_tf export-blocks`."""

import json
import sys
from pathlib import Path

from ios_tf.model.network import Network
from ios_tf.native import engine

# A convolution with as many groups as channels is a kernel of ours.
_OF_CUDNN = ("conv2d", "conv2d_transpose", "matmul")


def convolutions(network: Network) -> list[dict]:
    found = {}
    for region in network.regions:
        block = region.block
        shapes = engine.problem(block)["shapes"]
        for i, op in enumerate(block["operators"]):
            operator = {k: v for k, v in op.items() if k not in ("name", "inputs")}
            inputs = [
                block["inputs"][-1 - r] if r < 0 else shapes[r] for r in op["inputs"]
            ]
            channels = inputs[0][-1]
            if op["type"] == "sepconv":
                # The 1x1 convolution; the depthwise one before it is a kernel of ours.
                multiplier = operator.pop("multiplier", 1)
                for name in ("strides", "padding", "dilations", "pre_activation"):
                    operator.pop(name, None)
                operator |= {"type": "conv2d", "kernel": [1, 1]}
                inputs[0] = [*shapes[i][:3], channels * multiplier]
            elif op["type"] not in _OF_CUDNN or op.get("groups", 1) == channels > 1:
                continue
            one = {"operator": operator, "inputs": inputs}
            found[json.dumps(one, sort_keys=True)] = one
    return [found[key] for key in sorted(found)]


result = {}
for path in sys.argv[1:]:
    result[Path(path).stem] = convolutions(Network.read(path))
    print(path, len(result[Path(path).stem]))
text = json.dumps(result, sort_keys=True)
for bracket in ("[{", "}, {"):
    text = text.replace(bracket, bracket.replace("{", "\n  {"))
(Path(__file__).resolve().parent / "convolutions.json").write_text(text + "\n")
