"""The device of a model's schedules: the CPU, or the GPU that TensorFlow uses."""

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
      engine: its name in the engine: "cpu", "gpu:1", "gpu:1,tf32=off". The number is
        the one that CUDA gives the GPU in this process.
      tensorflow: its name in TensorFlow.
    """

    kind: str
    engine: str
    tensorflow: str


CPU = Device("cpu", "cpu", "/device:CPU:0")


def limit_threads() -> None:
    """Limits the engine to TensorFlow's number of threads, if the program has set it.

    The kernels of regions set the same limit when they are created. But searches for
    schedules come earlier, and schedules depend on the number of threads.
    """
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    if threads:
        # A missing library is reported where it is needed.
        with contextlib.suppress(engine.EngineError):
            engine.allow_threads(threads)


def choose(name: str, log: Callable[[str], None] = lambda line: None) -> Device:
    """Finds a device: "cpu", "gpu", "gpu:1", or "auto" for a GPU if it can be used.

    Args:
      name: the device's name. Its number counts only the GPUs that TensorFlow may use.
      log: called with one line that gives the reason if "auto" chooses the CPU.

    Returns:
      The device. If it is a GPU other than TensorFlow's first one, TensorFlow uses only
      this GPU from now on. A GPU uses TF32 if TensorFlow's switch for TF32 is on during
      this call.

    Raises:
      UserError: the device does not exist, or cannot be used; one line says why.
    """
    if device_name("device", name) == "cpu":
        return CPU
    found = tf.config.get_visible_devices("GPU")
    number = int(name.partition(":")[2] or 0)
    if number:
        found = _leave_only(number, found)
    if name == "auto" and not found:
        log(
            "the model is scheduled for the CPU, because TensorFlow does not find a GPU"
        )
        return CPU
    # The numbers differ: CUDA counts all GPUs of the process, but `name` counts only
    # those that TensorFlow may use.
    ordinal = found[0].name.rpartition(":")[2] if found else "0"
    gpu = Device("gpu", _gpu_name(ordinal), "/device:GPU:0")
    missing = [] if found else ["TensorFlow does not find a GPU"]
    try:
        engine.device_fingerprint(gpu.engine)
    except engine.EngineError as error:
        missing.append(str(error))
    if not missing:
        _leave_memory(found)
        return gpu
    if name != "auto":
        raise UserError(f"device {name}: " + "; ".join(missing))
    log(
        "the model is scheduled for the CPU, because the engine cannot use the GPU: "
        f"{missing[0]}"
    )
    return CPU


def in_use() -> list[str]:
    """The engine's names of the CPU and of the GPUs that TensorFlow may use."""
    numbers = [
        gpu.name.rpartition(":")[2] for gpu in tf.config.get_visible_devices("GPU")
    ]
    return [CPU.engine, *map(_gpu_name, numbers)]


def _gpu_name(ordinal: str) -> str:
    """The engine's name of a GPU, with TensorFlow's current switch for TF32."""
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    return f"gpu:{ordinal}{'' if tf32 else ',tf32=off'}"


def _leave_only(
    number: int, gpus: Sequence[tf.config.PhysicalDevice]
) -> list[tf.config.PhysicalDevice]:
    """Makes TensorFlow use only one GPU, which then becomes its GPU:0."""
    if number >= len(gpus):
        sees = f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}" if gpus else "no GPU"
        raise UserError(f"device gpu:{number}: TensorFlow sees {sees}")
    try:
        tf.config.set_visible_devices(gpus[number], "GPU")
    except RuntimeError:
        raise UserError(
            f"device gpu:{number}: TensorFlow already uses other GPUs in this "
            "process. Select the GPU with the environment variable "
            "CUDA_VISIBLE_DEVICES"
        ) from None
    return [gpus[number]]


def _leave_memory(gpus: Sequence[tf.config.PhysicalDevice]) -> None:
    """Makes TensorFlow allocate GPU memory when it needs it, not all of it at once.

    Inside of TensorFlow, the engine gets memory from TensorFlow's allocator. But cuDNN,
    and the engine without TensorFlow (`ios_tf tune`), need memory that TensorFlow has
    not allocated.
    """
    for gpu in gpus:
        # This raises an error if TensorFlow has already allocated the memory, or if the
        # user has set a limit.
        with contextlib.suppress(RuntimeError, ValueError):
            tf.config.experimental.set_memory_growth(gpu, True)
