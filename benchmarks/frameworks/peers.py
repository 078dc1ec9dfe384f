"""The peers that benchmarks compare, by name."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Mapping

from benchmarks.frameworks.environment_runners import (
    EnvironmentRunner,
    MnnRunner,
    NcnnAsInstalledRunner,
    NcnnRunner,
    ZenTfRunner,
)
from benchmarks.frameworks.ios_runner import IosRunner
from benchmarks.frameworks.runner import Runner, Target
from benchmarks.frameworks.saved_model_runners import (
    LiteRtRunner,
    OnnxRuntimeParallelRunner,
    OnnxRuntimeRunner,
    OpenVinoAsInstalledRunner,
    OpenVinoRunner,
    TensorFlowRunner,
    TensorFlowXlaRunner,
    TensorRtRunner,
)
from benchmarks.frameworks.torch_runners import (
    TorchChannelsLastRunner,
    TorchCompileRunner,
    TorchRunner,
)
from benchmarks.network import Network


@dataclasses.dataclass(frozen=True)
class Peer:
    """A peer, which is a row of the table.

    Attributes:
      name: name in the table.
      make: makes the runner of a network.
      modules: modules that must be installed.
      devices: kinds of devices that the peer runs on.
      runs_saved_model: whether the peer runs the network's SavedModel or its ONNX
        export, not its blocks.
      environment: the name of the Python environment that the peer needs, or "".
      as_installed: whether the peer computes in the precision that its default settings
        choose, not in the requested one.
    """

    name: str
    make: Callable[[Network, Target], Runner]
    modules: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu", "gpu")
    runs_saved_model: bool = False
    environment: str = ""
    as_installed: bool = False

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


def _of_model(
    name: str,
    make: Callable[[Network, Target], Runner],
    modules: str = "",
    devices: tuple[str, ...] = ("cpu", "gpu"),
) -> Peer:
    """Returns a peer that runs the SavedModel, which TensorFlow reads."""
    return Peer(name, make, (*modules.split(), "tensorflow"), devices, True)


def _of_environment(
    name: str, make: type[EnvironmentRunner], modules: str = "tf2onnx"
) -> Peer:
    """Returns a peer that runs in a separate Python environment."""
    peer = _of_model(name, make, modules, ("cpu",))
    return dataclasses.replace(peer, environment=make.environment)


def _as_installed(peer: Peer) -> Peer:
    name = f"{peer.name}, as installed"
    return dataclasses.replace(peer, name=name, as_installed=True)


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
    "tensorflow": _of_model("TensorFlow", TensorFlowRunner),
    "tensorflow_xla": _of_model("TensorFlow XLA", TensorFlowXlaRunner),
    "litert": _of_model("LiteRT", LiteRtRunner, "ai_edge_litert", ("cpu",)),
    "onnxruntime": _of_model("ONNX Runtime", OnnxRuntimeRunner, "tf2onnx onnxruntime"),
    "onnxruntime_parallel": _of_model(
        "ONNX Runtime, parallel",
        OnnxRuntimeParallelRunner,
        "tf2onnx onnxruntime",
        ("cpu",),
    ),
    "openvino": _of_model("OpenVINO", OpenVinoRunner, "tf2onnx openvino", ("cpu",)),
    "openvino_as_installed": _as_installed(
        _of_model("OpenVINO", OpenVinoAsInstalledRunner, "tf2onnx openvino", ("cpu",))
    ),
    "mnn": _of_environment("MNN", MnnRunner),
    "ncnn": _of_environment("ncnn", NcnnRunner, "tf2onnx onnxruntime"),
    "ncnn_as_installed": _as_installed(
        _of_environment("ncnn", NcnnAsInstalledRunner, "tf2onnx onnxruntime")
    ),
    "zentf": _of_environment("zentf", ZenTfRunner, ""),
    "tensorrt": _of_model(
        "TensorRT", TensorRtRunner, "tf2onnx tensorrt torch", ("gpu",)
    ),
}
