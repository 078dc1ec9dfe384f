"""A frozen graph that the native library opens once, for several queries."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import errors_impl

from ios_tf.native import grappler, plugin
from ios_tf.options import USUAL_IMAGE_SIZE


@dataclasses.dataclass(frozen=True)
class Precision:
    """The precision of operators on a CPU whose tensors are float32 or float16.

    Attributes:
      dtype: the type that they compute in: "float32" or "bfloat16".
      float32_operators: the names of operators that compute in float32 in any case.
      max_error: the largest difference that bfloat16 may make to an output, relative to
        the output's largest value.
    """

    dtype: str = "float32"
    float32_operators: frozenset[str] = frozenset()
    max_error: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The precision as the library reads it (cc/tensorflow/convert/graph_api.h)."""
        names = sorted(self.float32_operators)
        return {"dtype": self.dtype, "float32_operators": names}


FLOAT32 = Precision()


class Graph:
    """An open graph (cc/tensorflow/convert/open_graph.h). Not thread-safe.

    Methods raise TensorFlow's errors, with their payloads.
    """

    def __init__(
        self,
        graph_def: graph_pb2.GraphDef,
        inputs: Iterable[tf.TensorSpec],
        outputs: Iterable[str],
        image_size: tuple[int, int] = USUAL_IMAGE_SIZE,
    ) -> None:
        """Opens a copy of a graph.

        Args:
          graph_def, inputs, outputs: as for `grappler.optimize`.
          image_size: the values of heights and widths that the inputs leave open.
        """
        self._library = plugin.runtime()
        meta_graph = grappler.meta_graph(graph_def, inputs, outputs)
        content = meta_graph.SerializeToString()
        del meta_graph
        self._handle = self._call(
            "ios_tf_open_graph", content, len(content), *image_size
        )
        weakref.finalize(self, self._library.ios_tf_close_graph, self._handle)

    def blocks(
        self,
        batch_size: int,
        device: str,
        callers: int = 1,
        precision: Precision = FLOAT32,
    ) -> dict[str, Any]:
        """The blocks to schedule, in the format of cc/tensorflow/convert/collect.h.

        Args:
          batch_size: the value of an unknown leading dimension of the inputs.
          device: "cpu" or "gpu"; TensorFlow keeps operators that cannot run there.
          callers: the number of callers to schedule for.
          precision: the precision of the operators.
        """
        address = self._call(
            "ios_tf_graph_blocks",
            self._handle,
            batch_size,
            callers,
            device.encode(),
            json.dumps(precision.to_json()).encode(),
        )
        return json.loads(_taken(address))

    def rewritten(
        self,
        loads: Sequence[tuple[int, int]],
        device: str,
        schedules: Mapping[str, str],
        left: Collection[int] = (),
        materialise_merges: bool = True,
        precision: Precision = FLOAT32,
    ) -> graph_pb2.GraphDef:
        """The graph with schedules as attributes of nodes, and with merged nodes.

        Args:
          loads: the batch sizes and numbers of callers to schedule for.
          device: as for `blocks`.
          schedules: maps block signatures to schedules as JSON.
          left: the numbers of regions that are left to TensorFlow.
          materialise_merges: whether operators that all loads merge become one
            convolution of the graph; otherwise only the engine merges them.
          precision: as for `blocks`.
        """
        request = {
            "loads": list(loads),
            "device": device,
            "precision": precision.to_json(),
            "schedules": dict(schedules),
            "left": sorted(left),
            "materialise_merges": materialise_merges,
        }
        text = json.dumps(request).encode()
        return self._graph_def("ios_tf_rewritten_graph", self._handle, text)

    def lowered(self, batch_size: int, device: str) -> graph_pb2.GraphDef:
        """The graph as it runs with the plugin: each region with a schedule is a node.

        The arguments are those of `blocks`.
        """
        name, device_name = "ios_tf_lowered_graph", device.encode()
        return self._graph_def(name, self._handle, batch_size, device_name)

    def _graph_def(self, name: str, *arguments: Any) -> graph_pb2.GraphDef:
        size = ctypes.c_int64()
        address = self._call(name, *arguments, ctypes.byref(size))
        return graph_pb2.GraphDef.FromString(_taken(address, size.value))

    def _call(self, name: str, *arguments: Any) -> int:
        function: Callable[..., int | None] = getattr(self._library, name)
        error = ctypes.c_void_p()
        address = function(*arguments, ctypes.byref(error))
        if address:
            return address
        told = json.loads(_taken(error.value))
        kind = errors_impl.exception_type_from_error_code(told["code"])
        payloads = {payload.encode(): b"" for payload in told["payloads"]}
        raise kind(None, None, told["message"], payloads)


def _taken(address: int | None, size: int = -1) -> bytes:
    content = plugin.take(address, size)
    if content is None:  # the native side had no memory for the string
        raise MemoryError
    return content
