"""One network converted for several batch sizes, and its schedules as text."""

import dataclasses
import functools

import tensorflow as tf

from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.native.devices import CPU


def original(path: str):
    """The SavedModel's default signature as a function."""
    loaded = tf.saved_model.load(path)

    def call(images: tf.Tensor) -> tf.Tensor:
        return loaded.signatures["serving_default"](images)["output_0"]

    return call


@functools.cache
def freeze(path: str) -> frozen_graphs.FrozenSignature:
    loaded = saved_models.load(path)  # keeps the variables alive
    frozen = frozen_graphs.freeze(
        "serving_default", loaded.signatures["serving_default"]
    )
    return graph_optimizer.fold_constants(frozen)


def rewrite(
    frozen: frozen_graphs.FrozenSignature, forms
) -> frozen_graphs.FrozenSignature:
    """Rewrites the graph with schedules for several batch sizes.

    `forms` maps each batch size to a function that returns the schedule of a problem.
    """
    schedules = {
        signature: form(problem)
        for size, form in forms.items()
        for signature, problem in graph_optimizer.collect(frozen, size).problems.items()
    }
    graph_def = graph_optimizer.rewrite(frozen, schedules, list(forms))
    return dataclasses.replace(frozen, graph_def=graph_def)


def function_of(frozen: frozen_graphs.FrozenSignature):
    return frozen_graphs.rebuild(frozen, frozen.graph_def)


def write(source: str, forms, path: str) -> str:
    function = function_of(rewrite(freeze(source), forms))
    loaded = saved_models.load(source)
    saved_models.save(loaded, dict.fromkeys(loaded.signatures, function), path)
    return path


def stages(frozen: frozen_graphs.FrozenSignature) -> dict[int, list[str]]:
    """By batch size, each stage of several operators as "strategy count"."""
    (program,) = graph_optimizer.lowered_programs(frozen)
    return {
        entry["batch_size"]: [
            f"{stage['strategy']} {sum(map(len, stage['groups']))}"
            for stage in entry["schedule"]["stages"]
            if sum(map(len, stage["groups"])) > 1
        ]
        for entry in program["schedules"]
    }


class Stopwatch:
    """A cost model that returns given latencies.

    `latencies` maps each batch size to the latency of the sequential schedule, followed
    by those of the other schedules.
    """

    device = CPU
    lanes_divide_device = False  # so that batches are not split

    def __init__(self, latencies):
        self.latencies = latencies

    def compare_programs(self, candidates, seconds):
        sizes = {
            p["block"]["inputs"][0][0] for programs in candidates for p in programs
        }
        return self.latencies[sizes.pop()]

    def release(self):
        pass
