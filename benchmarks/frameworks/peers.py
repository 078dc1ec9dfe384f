"""The peers that benchmarks compare, by name."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping

from benchmarks.frameworks.ios_runner import IosRunner
from benchmarks.frameworks.onnx_runners import (
    OnnxRuntimeParallelRunner,
    OnnxRuntimeRunner,
    OpenVinoRunner,
    TensorRtRunner,
)
from benchmarks.frameworks.runner import Runner, Target
from benchmarks.frameworks.saved_model_runners import (
    LiteRtRunner,
    TensorFlowRunner,
    TensorFlowXlaRunner,
)
from benchmarks.frameworks.torch_runners import (
    TorchChannelsLastRunner,
    TorchCompileRunner,
    TorchRunner,
)
from ios_tf.model.network import Network


@dataclasses.dataclass(frozen=True)
class Peer:
    """A peer, which is a row of the table.

    Attributes:
      name: name in the table.
      make: makes the runner of a network.
      modules: modules that must be installed.
      devices: kinds of devices that the peer runs on.
      runs_saved_model: whether the peer runs the network's SavedModel, not its blocks.
    """

    name: str
    make: Callable[[Network, Target], Runner]
    modules: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu", "gpu")
    runs_saved_model: bool = False

    def missing(self) -> str:
        """Returns the modules that are not installed, or ""."""
        return ", ".join(
            name for name in self.modules if importlib.util.find_spec(name) is None
        )

    def versions(self) -> dict[str, str]:
        """Returns the versions of the peer's modules."""
        return {
            name: str(getattr(importlib.import_module(name), "__version__", "?"))
            for name in self.modules
        }


OURS = "IOS, best schedule"
PEERS: Mapping[str, Peer] = {
    "ios": Peer(OURS, IosRunner),
    "ios_sequential": Peer(
        "IOS, sequential", lambda n, t: IosRunner(n, t, "sequential")
    ),
    "torch": Peer("PyTorch eager", TorchRunner, ("torch",), ("gpu",)),
    "torch_channels_last": Peer(
        "PyTorch channels_last", TorchChannelsLastRunner, ("torch",), ("gpu",)
    ),
    "torch_compile": Peer("torch.compile", TorchCompileRunner, ("torch",), ("gpu",)),
    "onnxruntime": Peer("ONNX Runtime", OnnxRuntimeRunner, ("onnxruntime", "onnx")),
    "onnxruntime_parallel": Peer(
        "ONNX Runtime, parallel",
        OnnxRuntimeParallelRunner,
        ("onnxruntime", "onnx"),
        ("cpu",),
    ),
    "openvino": Peer("OpenVINO", OpenVinoRunner, ("openvino", "onnx"), ("cpu",)),
    "tensorflow": Peer(
        "TensorFlow", TensorFlowRunner, ("tensorflow",), runs_saved_model=True
    ),
    "tensorflow_xla": Peer(
        "TensorFlow XLA", TensorFlowXlaRunner, ("tensorflow",), runs_saved_model=True
    ),
    "litert": Peer(
        "LiteRT", LiteRtRunner, ("ai_edge_litert", "tensorflow"), ("cpu",), True
    ),
    "tensorrt": Peer(
        "TensorRT", TensorRtRunner, ("tensorrt", "torch", "onnx"), ("gpu",)
    ),
}
