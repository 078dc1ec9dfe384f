"""RandWire (Xie et al., 2019): stages wired by Watts-Strogatz random graphs.

A node of a graph sums its inputs and applies Relu, a separable convolution and a batch
norm. Edges go from the lower to the higher node. Nodes without incoming edges read the
stage's input with stride 2. The stage's output is the sum of the nodes without outgoing
edges.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
from keras import layers

from ios_tf.errors import UserError
from ios_tf.scheduler import document


@dataclasses.dataclass(frozen=True)
class Graph:
    """The wiring of one stage.

    Attributes:
      nodes: the number of nodes.
      edges: (u, v) with u < v.
    """

    nodes: int
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        for u, v in self.edges:
            if not 0 <= u < v < self.nodes:
                raise ValueError(
                    f"edge {u}-{v} must go from a lower to a higher node. Nodes are "
                    f"numbered from 0 to {self.nodes - 1}"
                )


def read_graphs(path: str) -> tuple[Graph, ...]:
    """Reads the graphs of all stages from a JSON file.

        {"stages": {"graphs": ["a", "b"]}, "graphs": {"a": {"nodes": 3,
         "edges": [[0, 1], [1, 2]]}, "b": ...}}

    Raises:
      UserError: the file cannot be read, or is not valid. One line says why.
    """
    try:
        data = document.read(path)
        return tuple(
            Graph(graph["nodes"], tuple((u, v) for u, v in graph["edges"]))
            for graph in (data["graphs"][name] for name in data["stages"]["graphs"])
        )
    except KeyError as error:
        raise UserError(
            f"{path}: the graphs cannot be read: {error} is missing"
        ) from None
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path}: the graphs cannot be read: {error}") from None


def watts_strogatz(nodes: int, seed: int) -> Graph:
    """Returns a connected small-world graph, WS(4, 0.75) as in the RandWire paper."""
    import networkx

    graph = networkx.connected_watts_strogatz_graph(nodes, 4, 0.75, seed=seed)
    return Graph(nodes, tuple(sorted((min(e), max(e)) for e in graph.edges)))


def generated_graphs(seed: int) -> tuple[Graph, ...]:
    """Returns random graphs with as many nodes as those of the IOS paper."""
    sizes = (16, 32, 32, 32)
    return tuple(watts_strogatz(n, seed + i) for i, n in enumerate(sizes))


def randwire(
    graphs: Sequence[Graph], channels: int = 154, size: int = 224, classes: int = 1000
) -> keras.Model:
    """RandWire, images [N, size, size, 3] to logits [N, classes].

    Args:
      graphs: one per stage; a stage halves height and width.
      channels: the channels of the first stage; each further stage has twice as many.
      size: height and width of the images.
      classes: the number of logits.
    """
    inputs = keras.Input((size, size, 3))
    x = layers.Conv2D(channels // 2, 3, 2, padding="same", use_bias=False)(inputs)
    x = layers.BatchNormalization()(x)
    for number, graph in enumerate(graphs):
        x = _stage(x, graph, channels << number, f"stage{number + 1}")
    x = layers.ReLU()(x)
    x = layers.Conv2D(1280, 1, use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes)(x), name="randwire")


def _stage(x: Any, graph: Graph, channels: int, name: str) -> Any:
    unread = set(range(graph.nodes)) - {u for u, _ in graph.edges}
    outputs: list[Any] = []
    for node in range(graph.nodes):
        reads = [outputs[u] for u, v in graph.edges if v == node]
        outputs.append(
            _node(
                _sum(reads or [x], f"{name}_node{node}_sum"),
                channels,
                1 if reads else 2,
                f"{name}_node{node}",
            )
        )
    return _sum([outputs[node] for node in sorted(unread)], f"{name}_sum")


def _node(x: Any, channels: int, strides: int, name: str) -> Any:
    x = layers.ReLU(name=f"{name}_relu")(x)
    x = layers.SeparableConv2D(
        channels, 3, strides, padding="same", use_bias=False, name=f"{name}_conv"
    )(x)
    return layers.BatchNormalization(name=f"{name}_norm")(x)


def _sum(tensors: Sequence[Any], name: str) -> Any:
    return layers.Add(name=name)(tensors) if len(tensors) > 1 else tensors[0]
