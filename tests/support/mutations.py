"""Plants faults in converted networks, and counts the faults that the comparison finds.

    python tests/support/mutations.py [--faults=200] [--seed=0]

A fault has an effect if it changes an output, the result of a region, or the logits
before a softmax by more than rounding does. TensorFlow computes the effect without the
engine, on inputs that the comparison does not use. Changes are relative to the spread
of the tensor. Rounding is ten times the effect of changing inputs and constants by
2e-6, and at least 1e-4 of the spread and 2e-5 of the largest value.

The exit status is 1 if the comparison misses a fault that has an effect.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ios_tf.conversion import timing
from ios_tf.conversion.comparison import DifferenceError
from ios_tf.conversion.originals import Original
from ios_tf.conversion.planning import Function
from ios_tf.differences import relative_difference, spread
from ios_tf.model import frozen_graphs, graph_optimizer, subgraphs
from ios_tf.model.weights import Weights
from ios_tf.models.calibration import calibrate_on, structured
from ios_tf.scheduler import sequential_schedule

KINDS = ("weight", "filters", "padding", "activation", "region")
_ACTIVATIONS = ("Relu", "Relu6", "Sigmoid", "Tanh", "LeakyRelu", "Elu")
_CONVOLUTIONS = ("Conv2D", "DepthwiseConv2dNative")
_ROUNDING = 2e-6
_AMPLE = 10.0
_LEAST = 1e-4
_LEAST_OF_VALUE = 2e-5


def confident(network: keras.Model) -> keras.Model:
    """Scales a classifier's logits to the magnitude of a trained classifier's
    logits."""
    dense = [one for one in network.layers if isinstance(one, layers.Dense)][-1]
    dense.kernel.assign(dense.kernel * 20.0)
    return network


@dataclasses.dataclass
class Converted:
    """A network, its converted form, and the tensors that faults can change."""

    function: Function
    weights: Weights
    tensors: list[str]
    truth: list[np.ndarray]
    scales: list[float | None]
    rounding: list[float]

    @classmethod
    def of(cls, model: Any) -> Converted:
        original = Original.of(model, "ios_tf.optimize")
        frozen = frozen_graphs.freeze_flat(original.name, original.function)
        weights = Weights()

        def named(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            values = original.compute([inputs[key] for key in frozen.inputs])
            return dict(zip(frozen.outputs, values, strict=True))

        function = Function.find(
            original.name, named, frozen, [1], (64, 64), "cpu", weights
        )
        frozen = function.frozen
        lowered = graph_optimizer.lowered(frozen, function.rewrite_sequential())
        names = [truth for _, _, truth in subgraphs.results_of_regions(frozen, lowered)]
        names += [name for name, _ in frozen.outputs.values()]
        names += [
            subgraphs.full_name(node.input[0])
            for node in frozen.graph_def.node
            if node.op == "Softmax"
        ]
        converted = cls(function, weights, list(dict.fromkeys(names)), [], [], [])
        converted._measure()
        return converted

    def _measure(self) -> None:
        graph_def = self.function.frozen.graph_def
        self.truth = self.compute(graph_def)
        others = self.compute(graph_def, seed=1)
        self.scales = [
            spread(a, b) or None for a, b in zip(self.truth, others, strict=True)
        ]
        noise = self.changes(self.compute(_rounded(graph_def), rounded=True))
        self.rounding = [
            max(
                _AMPLE * change,
                _LEAST,
                _LEAST_OF_VALUE * float(np.abs(truth).max()) / (scale or np.inf),
            )
            for change, truth, scale in zip(noise, self.truth, self.scales, strict=True)
        ]

    def compute(
        self, graph_def: Any, seed: int = 0, rounded: bool = False
    ) -> list[np.ndarray]:
        """The tensors that faults can change, as TensorFlow computes them."""
        frozen = self.function.frozen
        random = np.random.default_rng([99, seed])
        arguments = []
        for spec in frozen.inputs.values():
            shape = [size or 1 for size in spec.shape]
            values = random.uniform(0, 1, shape)
            if rounded:
                values *= 1 + random.uniform(0, 2 * _ROUNDING, shape)
            arguments.append(tf.constant(values, spec.dtype))
        call = subgraphs.tensors(frozen, graph_def, self.tensors)
        with timing.running(plugin=False, device="cpu"):
            return [tensor.numpy() for tensor in call(*arguments)]

    def changes(self, found: Sequence[np.ndarray]) -> list[float]:
        return [
            relative_difference(one, truth, scale)
            for one, truth, scale in zip(found, self.truth, self.scales, strict=True)
        ]

    def has_effect(self, graph_def: Any) -> bool:
        changes = self.changes(self.compute(graph_def))
        return any(
            change > rounding
            for change, rounding in zip(changes, self.rounding, strict=True)
        )

    def is_caught(self, graph_def: Any) -> bool:
        """True if the comparison refuses the converted graph with the fault."""
        function = self.function
        faulty = dataclasses.replace(function.frozen, graph_def=graph_def)
        collected = graph_optimizer.collect(faulty, 1, "cpu")
        schedules = {s: sequential_schedule(p) for s, p in collected.problems.items()}
        if schedules:
            graph_def = graph_optimizer.rewrite(faulty, schedules, [1], "cpu")
        taken = self.weights.take(faulty, graph_def)
        rebuilt = frozen_graphs.rebuild(faulty, *taken)

        def found(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
            arguments = [inputs[key] for key in faulty.inputs]
            results = rebuilt._call_flat(arguments, rebuilt.captured_inputs)
            return {key: results[key] for key in faulty.outputs}

        try:
            function.reference.compare(found, graph_def, [1])
        except (DifferenceError, frozen_graphs.NotConvertedError):
            return True
        return False


def plant(
    kind: str, graph_def: Any, other: Any, random: np.random.Generator
) -> Any | None:
    """A graph with one fault; None if the graph has no place for it.

    `other`: the same graph with the weights of another seed.
    """
    faulty = type(graph_def)()
    faulty.CopyFrom(graph_def)
    nodes = {node.name: node for node in faulty.node}
    convolutions = [
        node
        for node in faulty.node
        if node.op in _CONVOLUTIONS and nodes[node.input[1]].op == "Const"
    ]
    if kind == "activation":
        places = [node for node in faulty.node if node.op in _ACTIVATIONS]
    elif kind == "padding":
        places = [n for n in convolutions if _has_border(n, nodes)]
    else:
        places = convolutions
    if not places:
        return None
    place = places[random.integers(len(places))]
    if kind == "activation":
        dtype = place.attr["T"].type
        place.op = "Identity"
        place.attr.clear()
        place.attr["T"].type = dtype
        return faulty
    if kind == "padding":
        _shift_padding(place, nodes, faulty, random)
        return faulty
    if kind == "region":
        _take_weights(faulty, other)
        return faulty
    constant = nodes[place.input[1]]
    values = tf.make_ndarray(constant.attr["value"].tensor).copy()
    if kind == "weight":
        values[tuple(random.integers(size) for size in values.shape)] *= 1.01
    else:
        axis = 2 if place.op == "DepthwiseConv2dNative" else 3
        if values.shape[axis] < 2:
            return None
        a, b = random.choice(values.shape[axis], 2, replace=False)
        order = np.arange(values.shape[axis])
        order[[a, b]] = order[[b, a]]
        values = np.take(values, order, axis)
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values))
    return faulty


def _take_weights(graph_def: Any, other: Any) -> None:
    """Replaces all filters of a graph by another graph's filters."""
    filters = {node.input[1] for node in graph_def.node if node.op in _CONVOLUTIONS}
    twins = {node.name: node for node in other.node}
    for node in graph_def.node:
        if node.name in filters and node.op == "Const" and node.name in twins:
            node.CopyFrom(twins[node.name])


def _has_border(node: Any, nodes: Any) -> bool:
    """True if a convolution pads its images, and has no strides or dilations."""
    shape = nodes[node.input[1]].attr["value"].tensor.tensor_shape.dim
    return (
        node.attr["padding"].s == b"SAME"
        and set(node.attr["strides"].list.i) == {1}
        and set(node.attr["dilations"].list.i) <= {1}
        and all(dim.size % 2 and dim.size > 1 for dim in shape[:2])
    )


def _shift_padding(
    place: Any, nodes: Any, graph_def: Any, random: np.random.Generator
) -> None:
    """Moves the padding of a convolution by one cell."""
    shape = nodes[place.input[1]].attr["value"].tensor.tensor_shape.dim
    paddings = np.zeros((4, 2), np.int32)
    for axis in (1, 2):
        paddings[axis] = shape[axis - 1].size // 2
    paddings[1 + random.integers(2)] += (-1, 1)
    constant = graph_def.node.add(name=f"{place.name}/paddings", op="Const")
    constant.attr["dtype"].type = tf.int32.as_datatype_enum
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(paddings))
    pad = graph_def.node.add(name=f"{place.name}/pad", op="Pad")
    pad.input.extend([place.input[0], constant.name])
    pad.attr["T"].type = place.attr["T"].type
    pad.attr["Tpaddings"].type = tf.int32.as_datatype_enum
    place.input[0] = pad.name
    place.attr["padding"].s = b"VALID"


def _rounded(graph_def: Any) -> Any:
    """The graph with constants changed by as much as rounding changes them."""
    random = np.random.default_rng(5)
    rounded = type(graph_def)()
    rounded.CopyFrom(graph_def)
    for node in rounded.node:
        if (
            node.op == "Const"
            and node.attr["dtype"].type == tf.float32.as_datatype_enum
        ):
            values = tf.make_ndarray(node.attr["value"].tensor)
            factors = 1 + random.uniform(-_ROUNDING, _ROUNDING, values.shape)
            changed = (values * factors).astype(np.float32)
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(changed))
    return rounded


def tally(
    build: Callable[[int], Any], faults: int, seed: int
) -> dict[str, collections.Counter[str]]:
    """Plants faults of all kinds in turn.

    Returns the counts of planted faults, of those with an effect, and of caught ones.
    """
    random = np.random.default_rng(seed)
    converted = Converted.of(build(0))
    original = converted.function.frozen.graph_def
    other = Converted.of(build(1)).function.frozen.graph_def
    counts = {kind: collections.Counter[str]() for kind in KINDS}
    for i in range(faults):
        for kind in [*KINDS[i % len(KINDS) :], *KINDS]:
            faulty = plant(kind, original, other, random)
            if faulty is not None:
                break
        counts[kind]["planted"] += 1
        if converted.has_effect(faulty):
            counts[kind]["effect"] += 1
            counts[kind]["caught"] += converted.is_caught(faulty)
    return counts


def _application(name: str, trained: bool) -> Callable[[int], Any]:
    def build(seed: int) -> keras.Model:
        keras.backend.clear_session()  # makes Keras give the same names to layers
        keras.utils.set_random_seed(seed)
        shape = (75, 75, 3)
        network = getattr(keras.applications, name)(
            weights=None, input_shape=shape, classes=10
        )
        if trained:
            calibrate_on(network, structured((2, *shape)))
            confident(network)
        return network

    return build


NETWORKS = {
    f"{name}, {'trained-like' if trained else 'random'}": _application(name, trained)
    for name in (
        "MobileNetV2",
        "EfficientNetB0",
        "ResNet50",
        "DenseNet121",
        "InceptionV3",
    )
    for trained in (False, True)
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--networks", default="", help="use only networks whose names contain this text"
    )
    options = parser.parse_args()
    networks = {n: b for n, b in NETWORKS.items() if options.networks in n}
    missed = 0
    print(f"{'network':<32}{'fault':<12}{'planted':>8}{'effect':>8}{'caught':>8}")
    for i, (name, build) in enumerate(networks.items()):
        faults = options.faults * (i + 1) // len(networks)
        faults -= options.faults * i // len(networks)
        for kind, count in tally(build, faults, options.seed + i).items():
            numbers = [count[key] for key in ("planted", "effect", "caught")]
            missed += numbers[1] - numbers[2]
            print(f"{name:<32}{kind:<12}" + "".join(f"{n:>8}" for n in numbers))
            sys.stdout.flush()
    print(f"missed: {missed}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
