"""Writes data/*.json: the paper's four networks with few channels and small
images, as `python -m benchmarks export_blocks` exports them, so that a CPU can run
their kernels.

Takes some minutes. Run it again when the collected operators change.
"""

import json
import sys
import tempfile
from pathlib import Path

import keras
from keras.src.applications.nasnet import NASNet

sys.path.append(str(Path(__file__).resolve().parents[2]))  # for `benchmarks`

from benchmarks.export_blocks import network_of
from ios_tf.models import randwire, squeezenet
from ios_tf.native import engine

DATA = Path(__file__).resolve().parent / "data"


def _nasnet() -> keras.Model:
    """NASNet with the depth of NASNet-A (large), but 16 filters."""
    return NASNet(
        input_shape=(32, 32, 3),
        penultimate_filters=24 * 16,
        num_blocks=6,
        stem_block_filters=16,
        skip_reduction=True,
        filter_multiplier=2,
        weights=None,
        classes=10,
        classifier_activation=None,
        default_size=32,
    )


def _inception() -> keras.Model:
    return keras.applications.InceptionV3(
        weights=None,
        input_shape=(107, 107, 3),
        classes=10,
        classifier_activation=None,
    )


# Each network with the divisor of its numbers of channels.
NETWORKS = {
    "inception": (_inception, 16),
    "squeezenet": (lambda: squeezenet.squeezenet(64, 10), 8),
    "randwire": (
        lambda: randwire.randwire(randwire.generated_graphs(0), 16, 64, 10),
        1,
    ),
    "nasnet": (_nasnet, 2),
}


def _shrunk(block: dict, divisor: int) -> dict:
    """The block without names and with fewer channels, except in images and logits."""
    operators = []
    for op in block["operators"]:
        op = {key: value for key, value in op.items() if key != "name"}
        if "filters" in op and op["type"] != "matmul":
            op["filters"] = max(1, op["filters"] // divisor)
        operators.append(op)
    inputs = [
        [*s[:-1], s[-1] if s[-1] == 3 else s[-1] // divisor] for s in block["inputs"]
    ]
    return {**block, "name": "", "inputs": inputs, "operators": operators}


def _write(name: str) -> None:
    build, divisor = NETWORKS[name]
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        network_of(build()).write(file.name)
        data = json.loads(Path(file.name).read_text())
    signatures = {}
    for i, block in enumerate(data["blocks"]):
        data["blocks"][i] = _shrunk(block, divisor)
        old, new = (engine.problem(b)["signature"] for b in (block, data["blocks"][i]))
        signatures[old] = new
    for region in data["regions"]:
        region["block"] = _shrunk(region["block"], divisor)
        for part in region["parts"]:
            part["signature"] = signatures[part["signature"]]
    text = json.dumps({**data, "name": name}, separators=(",", ":"))
    DATA.mkdir(exist_ok=True)
    # Writes one operator per line.
    (DATA / f"{name}.json").write_text(text.replace('},{"', '},\n{"') + "\n")


if __name__ == "__main__":
    for network in sys.argv[1:] or NETWORKS:
        _write(network)
