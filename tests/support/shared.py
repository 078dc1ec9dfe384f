"""Networks that many tests need. Each is created once per test run, for all
processes."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prepared_python import DIRECTORY

from ios_tf.cost.samples import Sample
from ios_tf.reasons import Reason

if TYPE_CHECKING:
    from ios_tf.conversion import timing

# Quick and noisy measurements, for tests of results rather than of speed. Searches are
# fast, and schedules are kept even if small networks do not gain.
FAST = {
    "warmup_runs": 0,
    "runs": 1,
    "sample_count": 1,
    "max_groups": 3,
    "max_group_size": 2,
    "keep_slower": True,
}


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A directory that all processes share. The first one to ask fills it with
    `make`."""
    target = Path(os.environ[DIRECTORY]) / name
    with open(target.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            unfinished = target.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(target)
    return target


def cells() -> str:
    """The path of a Keras export of NASNet's cells; images are 17 x 17."""
    return str(made_once("cells", _export_cells) / "model")


def branches() -> str:
    """The path of a Keras export of `networks.branches`."""
    return str(made_once("branches", _export_branches) / "model")


def converted_cells() -> str:
    """The path of `cells`, converted with the greedy strategy."""
    return str(made_once("converted_cells", _convert_cells) / "model")


@functools.cache
def cells_graph():
    """`cells` without conversion, as a frozen graph."""
    return _read_graph(Path(cells()).parent)


@functools.cache
def branches_graph():
    """`branches` without conversion, as a frozen graph."""
    return _read_graph(Path(branches()).parent)


def inception_v3() -> str:
    """The path of Inception V3 with one signature; images are 139 x 139."""
    return str(made_once("inception_v3", _save_inception_v3) / "model")


@functools.cache
def inception_v3_graph():
    """`inception_v3` as a frozen graph."""
    return _read_graph(Path(inception_v3()).parent)


def _export_cells(directory: Path) -> None:
    import networks

    model = networks.nasnet_like(17)
    model.export(directory / "model", verbose=False)
    _write_graph(directory, model)


def _export_branches(directory: Path) -> None:
    import networks

    model = networks.branches()
    model.export(directory / "model", verbose=False)
    _write_graph(directory, model)


def _convert_cells(directory: Path) -> None:
    import ios_tf

    ios_tf.convert(
        cells(),
        directory / "model",
        strategy="greedy",
        cache_dir=str(directory / "cache"),
        **FAST,
    )


def _save_inception_v3(directory: Path) -> None:
    import networks

    model = networks.inception_v3(139)
    save(model, directory / "model")
    _write_graph(directory, model)


def save(model, directory: Path) -> str:
    """Writes a SavedModel of one signature, faster than Keras's export."""
    import tensorflow as tf

    module = tf.Module()
    # Saving the model itself would be slow: its lists of layers take the most time.
    module.weights = [variable.value for variable in model.variables]
    call = tf.function(
        lambda images: model(images, training=False),
        input_signature=[tf.TensorSpec([None, *model.input_shape[1:]])],
        autograph=False,
    )
    tf.saved_model.save(module, str(directory), signatures=call)
    return str(directory)


def _write_graph(directory: Path, model) -> None:
    import graph_helpers as gh

    graph = gh.freeze(model, (None, *model.input_shape[1:]))
    (directory / "graph.pb").write_bytes(graph.graph_def.SerializeToString())
    (directory / "graph.json").write_text(json.dumps([graph.inputs, graph.outputs]))


def _read_graph(directory: Path):
    import graph_helpers as gh
    from tensorflow.core.framework import graph_pb2

    graph_def = graph_pb2.GraphDef.FromString((directory / "graph.pb").read_bytes())
    return gh.Graph(graph_def, *json.loads((directory / "graph.json").read_text()))


def exactly(*milliseconds: float) -> timing.Latencies:
    """The result of `timing.latencies` after one sample of each function."""
    from ios_tf.conversion import timing

    return timing.Latencies([[Sample(ms)] for ms in milliseconds], on_cpu=True)


def reasons(report: Any) -> list[Reason]:
    """The reasons of the decisions of a report or comparison, in their order.

    Nodes that the importer leaves to TensorFlow and the load of this machine are left
    out.
    """
    return [
        one.reason
        for one in report.decisions
        if not one.types and one.reason is not Reason.BUSY
    ]
