"""The device a model is scheduled for: the CPU, or the GPU that TensorFlow uses."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.validation import device_name


@dataclasses.dataclass(frozen=True)
class Device:
    """A device of this process.

    Attributes:
      kind: "cpu" or "gpu", as the ops and the graph optimizer call it.
      engine: as the engine calls it: "cpu", "gpu:1", "gpu:1,tf32=off", by the number
        that CUDA gives it in this process.
      tensorflow: as TensorFlow calls it.
    """

    kind: str
    engine: str
    tensorflow: str


CPU = Device("cpu", "cpu", "/device:CPU:0")


def choose(name: str, say: Callable[[str], None] = lambda line: None) -> Device:
    """The device of a name: "cpu", "gpu", "gpu:1", or "auto": a GPU if it can be used.

    Args:
      name: one of these; GPUs by the numbers that TensorFlow gives those it may use.
      say: gets a line if "auto" is the CPU, which says why.

    Returns:
      The GPU is the only one that TensorFlow uses from now on if it is not its first;
      its float32 is as TensorFlow's switch for TF32 says at present.

    Raises:
      UserError: there is no such device, or one line that says what is missing.
    """
    if device_name(name) == "cpu":
        return CPU
    found = tf.config.get_visible_devices("GPU")
    number = int(name.partition(":")[2] or 0)
    if number:
        found = _leave_only(number, found)
    if name == "auto" and not found:
        say("device: the CPU, for TensorFlow sees no GPU")
        return CPU
    # CUDA counts all GPUs of the process, TensorFlow only those it may use.
    ordinal = found[0].name.rpartition(":")[2] if found else "0"
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    gpu = Device("gpu", f"gpu:{ordinal}{'' if tf32 else ',tf32=off'}", "/device:GPU:0")
    missing = [] if found else ["TensorFlow sees no GPU"]
    try:
        engine.device_fingerprint(gpu.engine)
    except engine.EngineError as error:
        missing.append(str(error))
    if not missing:
        _leave_memory(found)
        return gpu
    if name != "auto":
        raise UserError(f"device {name}: " + "; ".join(missing))
    say(f"device: the CPU, for the engine cannot use the GPU: {missing[0]}")
    return CPU


def _leave_only(
    number: int, gpus: Sequence[tf.config.PhysicalDevice]
) -> list[tf.config.PhysicalDevice]:
    """Has TensorFlow use one GPU only, which is its first one then."""
    if number >= len(gpus):
        sees = f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}" if gpus else "no GPU"
        raise UserError(f"device gpu:{number}: TensorFlow sees {sees}")
    try:
        tf.config.set_visible_devices(gpus[number], "GPU")
    except RuntimeError:
        raise UserError(
            f"device gpu:{number}: TensorFlow uses other GPUs already; choose it with "
            "CUDA_VISIBLE_DEVICES"
        ) from None
    return [gpus[number]]


def _leave_memory(gpus: Sequence[tf.config.PhysicalDevice]) -> None:
    """Has TensorFlow take a GPU's memory as it needs it, not all of it at once.

    What the engine runs in TensorFlow takes its memory from there; cuDNN's and the
    engine's without TensorFlow (`ios_tf tune`) would find next to nothing left.
    """
    for gpu in gpus:
        # It has taken it already, or the user has said how much.
        with contextlib.suppress(RuntimeError, ValueError):
            tf.config.experimental.set_memory_growth(gpu, True)
