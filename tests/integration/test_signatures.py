"""Signatures of blocks name cached schedules, so they may change only if blocks do.

A change of the importer, a rule or the JSON changes signatures, and then every user has
to search again. If that is intended, write the new signatures:

    PYTHONPATH=tests/support python tests/integration/test_signatures.py
"""

import json
import os
import tempfile
from pathlib import Path

import graph_helpers as gh
import networks
import pytest
import shared

SIGNATURES = Path(__file__).parents[1] / "support" / "data" / "signatures.json"
NETWORKS = ("branches", "cells", "densenet_like", "inception_like", "mobilenet_like")
BATCH_SIZES = (1, 8)


def graph_of(name):
    if name == "cells":
        return shared.cells_graph()
    model = getattr(networks, name)()
    return gh.freeze(model, (None, *model.input_shape[1:]))


def signatures_of(name):
    """The signatures of a network's blocks, by device and batch size."""
    graph = graph_of(name)
    return {
        f"{device}, batch size {size}": [
            block["signature"] for block in gh.collect(graph, size, device)["blocks"]
        ]
        for device in ("cpu", "gpu")
        for size in BATCH_SIZES
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_signatures_stay(name):
    found = signatures_of(name)
    assert found == json.loads(SIGNATURES.read_text())[name]
    assert all(found.values())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        os.environ[shared.DIRECTORY] = directory
        signatures = {name: signatures_of(name) for name in NETWORKS}
    SIGNATURES.write_text(json.dumps(signatures, indent=1) + "\n")
