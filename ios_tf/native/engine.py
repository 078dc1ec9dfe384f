"""The engine without TensorFlow: its C API (cc/engine/engine_api.h) over numpy."""

from __future__ import annotations

import ctypes
import functools
import glob
import json
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ios_tf.native import platforms

if TYPE_CHECKING:  # `ios_tf --help` needs neither numpy nor the engine
    import numpy as np

LIBRARIES = Path(__file__).resolve().parents[1] / "lib"

_TEXT, _POINTER = ctypes.c_char_p, ctypes.c_void_p
_INT, _INT64 = ctypes.c_int, ctypes.c_int64
_FLOATS = ctypes.POINTER(ctypes.c_float)
_FLOAT_ARRAYS = ctypes.POINTER(_FLOATS)
_DOUBLES = ctypes.POINTER(ctypes.c_double)
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_INTS, _INT64S = ctypes.POINTER(_INT), ctypes.POINTER(_INT64)
_TEXTS, _POINTERS = ctypes.POINTER(_TEXT), ctypes.POINTER(_POINTER)
# The numpy type of each data type. numpy does not have bfloat16, whose bits are passed
# as uint16.
_DTYPES = {"float32": "float32", "float16": "float16", "bfloat16": "uint16"}
# The common argument types of functions that run a program: the program, the inputs
# with their shapes, and the outputs.
_RUN = [_POINTER, _POINTERS, _INT64S, _INT, _POINTERS, _INT]
# The functions of the C API: their return types and argument types.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ios_last_error": (_TEXT, []),
    "ios_last_error_is_exhaustion": (_INT, []),
    "ios_free_string": (None, [_POINTER]),
    "ios_shared_names": (_POINTER, []),
    "ios_failed_captures": (_INT64, []),
    "ios_add_library_directory": (None, [_TEXT]),
    "ios_allow_threads": (None, [_INT]),
    "ios_device_fingerprint": (_POINTER, [_TEXT]),
    "ios_device_directory": (_POINTER, [_TEXT]),
    "ios_lane_count": (_INT, [_TEXT]),
    "ios_has_bfloat16": (_INT, [_TEXT]),
    "ios_lanes_divide_device": (_INT, [_TEXT]),
    "ios_problem": (_POINTER, [_TEXT]),
    "ios_part": (_POINTER, [_TEXT, _INTS, _INT]),
    "ios_check_schedule": (_INT, [_TEXT] * 2),
    "ios_arena_bytes": (_INT64, [_TEXT] * 3),
    "ios_check_memory": (_INT, [_INT64]),
    "ios_exit_on_abort": (None, [_TEXT, _INT]),
    "ios_profiler_create": (_POINTER, [_TEXT] * 2),
    "ios_profiler_delete": (None, [_POINTER]),
    "ios_profiler_measure": (_INT, [_POINTER, _TEXTS, *[_INT] * 5, _DOUBLES, _BYTES]),
    "ios_meter_create": (_POINTER, []),
    "ios_meter_delete": (None, [_POINTER]),
    "ios_meter_start": (None, [_POINTER]),
    "ios_meter_stop": (_INT, [_POINTER, *[_INT] * 2, _DOUBLES]),
    "ios_trace_start": (_INT, [_INT64]),
    "ios_trace_stop": (_POINTER, []),
    "ios_program_create": (
        _POINTER,
        [*[_TEXT] * 2, _FLOAT_ARRAYS, _INT64S, _INT, _TEXT],
    ),
    "ios_program_delete": (None, [_POINTER]),
    "ios_program_run": (_INT, _RUN),
    "ios_program_enqueue": (_INT, [*_RUN, _POINTER]),
}


class EngineError(RuntimeError):
    """The engine rejected a request or failed; the message is one line."""


class EngineMemoryError(EngineError, MemoryError):
    """There is not enough memory, or there are too many threads already."""


def typed_library(
    path: Path, signatures: Mapping[str, tuple[Any, Sequence[Any]]]
) -> ctypes.CDLL:
    """Loads a library; `signatures` are its functions' return and argument types.

    Raises:
      OSError: the library cannot be loaded.
    """
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in signatures.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise OSError(
                f"{path} has no function {name}, because it belongs to another "
                "version. Install ios-tf again"
            ) from None
        function.restype = result
        function.argtypes = arguments
    return library


@functools.cache
def _library() -> ctypes.CDLL:
    path = LIBRARIES / "libios_engine.so"
    try:
        library = typed_library(path, _SIGNATURES)
    except OSError as error:
        reason = platforms.explained(str(error))
        raise EngineError(f"cannot load the engine: {reason}") from None
    for directory in cuda_directories():
        library.ios_add_library_directory(os.fsencode(directory))
    return library


def load() -> None:
    """Loads the engine's library, and gives it the directories of NVIDIA's packages.

    Raises:
      EngineError: the library cannot be loaded.
    """
    _library()


def exit_on_abort(message: str | None, descriptor: int = 2) -> None:
    """Makes abort() print a message, and exit with code 1, from now on.

    exit() prints the message, too, if its code is not 0. Libraries call abort() or
    exit() if they get no memory or threads. If the message is None, both work as usual
    again.
    """
    _library().ios_exit_on_abort(message and message.encode(), descriptor)


def cuda_directories() -> list[str]:
    """The directories of pip's cuDNN and NVRTC below all of Python's import paths."""
    return [
        directory
        for entry in sys.path
        for directory in sorted(
            glob.glob(os.path.join(glob.escape(os.path.abspath(entry)), "nvidia/*/lib"))
        )
    ]


def _check(ok: Any) -> None:
    if not ok:
        exhausted = _library().ios_last_error_is_exhaustion()
        message = _library().ios_last_error().decode()
        raise (EngineMemoryError if exhausted else EngineError)(message)


def _owned(
    owner: object, handle: int | None, delete: Callable[[int | None], None]
) -> int | None:
    """Returns a handle of the C API, which is deleted together with its owner."""
    _check(handle)
    weakref.finalize(owner, delete, handle).atexit = False
    return handle


def _take_string(pointer: int | None) -> str:
    _check(pointer)
    text = ctypes.string_at(pointer).decode()
    _library().ios_free_string(pointer)
    return text


def _floats(arrays: Sequence[np.ndarray]) -> ctypes.Array:
    return (_FLOATS * len(arrays))(*[a.ctypes.data_as(_FLOATS) for a in arrays])


def _pointers(addresses: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def _int64s(values: Sequence[int]) -> ctypes.Array:
    return (ctypes.c_int64 * len(values))(*values)


def shared_names() -> dict[str, Any]:
    """The names and limits of documents (cc/engine/shared_names.h)."""
    return json.loads(_take_string(_library().ios_shared_names()))


def allow_threads(threads: int) -> None:
    """Limits the CPU's threads; after several calls, the largest limit applies.

    The environment variable IOS_TF_NUM_THREADS overrides the limit.
    """
    _library().ios_allow_threads(threads)


def device_fingerprint(device: str = "cpu") -> str:
    """The processor, cores and library versions that `device`'s latencies depend on."""
    return _take_string(_library().ios_device_fingerprint(device.encode()))


def cpu_description() -> dict[str, str]:
    """The parts of the CPU's fingerprint by name.

    Raises:
      EngineError: the engine cannot be loaded.
    """
    # A processor's name may contain commas. The other parts do not.
    name, _, instructions, onednn, _ = device_fingerprint("cpu").rsplit(", ", 4)
    return {
        "processor": name,
        "instruction set": instructions,
        "oneDNN": onednn.partition(" ")[2],
    }


def device_directory(fingerprint: str) -> str:
    """The name of a cache's directory for the device with this fingerprint."""
    return _take_string(_library().ios_device_directory(fingerprint.encode()))


def lane_count(device: str = "cpu") -> int:
    """The number of lanes of a device."""
    count = _library().ios_lane_count(device.encode())
    _check(count)
    return count


def lanes_divide_device(device: str = "cpu") -> bool:
    """Returns whether each lane has a part of the device (CPU cores).

    Otherwise, all lanes share the device (GPU).
    """
    divide = _library().ios_lanes_divide_device(device.encode())
    _check(divide >= 0)
    return bool(divide)


def has_bfloat16(device: str = "cpu") -> bool:
    """Returns whether a device multiplies bfloat16 numbers faster than float32."""
    has = _library().ios_has_bfloat16(device.encode())
    _check(has >= 0)
    return bool(has)


def failed_captures() -> int:
    """The number of CUDA graphs that could not be made in this process."""
    return _library().ios_failed_captures()


def problem(block: Mapping[str, Any]) -> dict[str, Any]:
    """The problem of a block (a JSON object), for scheduler.Problem.from_json."""
    return json.loads(_take_string(_library().ios_problem(json.dumps(block).encode())))


def part(block: Mapping[str, Any], operators: Sequence[int]) -> dict[str, Any]:
    """The problem of some operators of a block, by their indices in ascending order."""
    members = (ctypes.c_int * len(operators))(*operators)
    text = json.dumps(block).encode()
    return json.loads(_take_string(_library().ios_part(text, members, len(members))))


def check_schedule(block: Mapping[str, Any], schedule: str) -> None:
    """Checks that a schedule, as JSON text, may execute a block.

    Raises:
      EngineError: the schedule is wrong, or is for another block; one line says why.
    """
    text = json.dumps(block).encode()
    _check(_library().ios_check_schedule(text, schedule.encode()) == 0)


def arena_bytes(
    block: Mapping[str, Any], schedule: Mapping[str, Any], device: str = "cpu"
) -> int:
    """The bytes that one call of a block needs for the tensors inside of the block.

    Raises:
      EngineError: the schedule is wrong, or the device cannot run the block.
    """
    found = _library().ios_arena_bytes(
        json.dumps(block).encode(), json.dumps(schedule).encode(), device.encode()
    )
    _check(found >= 0)
    return found


def check_memory(size: int) -> None:
    """Checks that the host has `size` bytes of memory that are free or can be freed.

    Raises:
      EngineMemoryError: there is less memory.
    """
    _check(_library().ios_check_memory(size) == 0)


def start_trace(max_tasks: int) -> None:
    """Starts a trace of all calls of programs, which keeps `max_tasks` operators.

    Raises:
      EngineError: a trace is being recorded already.
    """
    _check(_library().ios_trace_start(max_tasks) == 0)


def stop_trace() -> str:
    """Stops the trace, and returns it as JSON (cc/engine/trace/recorder.h).

    Waits for calls that have begun.

    Raises:
      EngineError: no trace is being recorded.
    """
    return _take_string(_library().ios_trace_stop())


class Profiler:
    """Measures stages of one block on a device (paper, section 4.3).

    All candidates share one set of tensors with random values.
    """

    def __init__(self, block: Mapping[str, Any], device: str = "cpu"):
        create, delete = _library().ios_profiler_create, _library().ios_profiler_delete
        text = json.dumps(block).encode()
        self._handle = _owned(self, create(text, device.encode()), delete)

    def sample(
        self,
        candidates: Sequence[Mapping[str, Any]],
        warmup: int = 2,
        number: int = 3,
        repeat: int = 3,
        lanes: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Takes samples of candidates' latencies.

        `candidates` are schedules as JSON objects, which may leave operators of the
        block out. The candidates take turns, and each gets `repeat` samples of `number`
        runs. If `lanes` is above 0, the device is divided into `lanes` lanes, and a
        stage uses only one of them, as if other groups ran beside it.

        Returns:
          The milliseconds (float64), and whether another process disturbed each sample
          (bool). Both arrays are [candidates, repeat].
        """
        import numpy as np

        texts = [json.dumps(candidate).encode() for candidate in candidates]
        latencies = np.zeros((len(texts), max(repeat, 1)))
        disturbed = np.zeros(latencies.shape, np.uint8)
        code = _library().ios_profiler_measure(
            self._handle,
            (ctypes.c_char_p * len(texts))(*texts),
            len(texts),
            warmup,
            number,
            repeat,
            lanes,
            latencies.ctypes.data_as(_DOUBLES),
            disturbed.ctypes.data_as(_BYTES),
        )
        _check(code == 0)
        return latencies, disturbed != 0


class Meter:
    """Detects whether other processes disturb this process.

    A meter covers only the threads that exist when the meter is made.
    """

    def __init__(self) -> None:
        create, delete = _library().ios_meter_create, _library().ios_meter_delete
        self._handle = _owned(self, create(), delete)

    def start(self) -> None:
        """Begins a sample."""
        _library().ios_meter_start(self._handle)

    def stop(
        self, waits_for_device: bool = False, compete: bool = False
    ) -> tuple[bool, float]:
        """Ends a sample.

        Args:
          waits_for_device: whether threads may wait for a GPU.
          compete: whether this process has more busy threads than there are cores.

        Returns:
          Whether other processes disturbed the sample, and the processor time of all
          threads since the start, in milliseconds.
        """
        cpu_ms = ctypes.c_double()
        disturbed = _library().ios_meter_stop(
            self._handle, waits_for_device, compete, ctypes.byref(cpu_ms)
        )
        return bool(disturbed), cpu_ms.value


def _numpy_types(block: Mapping[str, Any], kind: str) -> list[str]:
    """The numpy types of a block's inputs (`kind` "input") or outputs ("output")."""
    usual = [block.get("dtype", "float32")] * len(block[f"{kind}s"])
    return [_DTYPES[dtype] for dtype in block.get(f"{kind}_dtypes", usual)]


class Program:
    """A block with schedule and weights, ready to run on a device.

    `weights` are the float32 arrays of all operators in order, in TensorFlow's
    layouts (WeightShapes in cc/core/ops/operator.h).
    """

    def __init__(
        self,
        block: Mapping[str, Any],
        schedule: Mapping[str, Any],
        weights: Sequence[np.ndarray],
        device: str = "cpu",
    ):
        import numpy as np

        arrays = [np.ascontiguousarray(w, np.float32) for w in weights]
        handle = _library().ios_program_create(
            json.dumps(block).encode(),
            json.dumps(schedule).encode(),
            _floats(arrays),
            _int64s([a.size for a in arrays]),
            len(arrays),
            device.encode(),
        )
        self._handle = _owned(self, handle, _library().ios_program_delete)
        self._block = dict(block)
        self._ranks = [len(shape) for shape in block["inputs"]]
        self._input_dtypes = _numpy_types(block, "input")
        self._output_dtypes = _numpy_types(block, "output")

    def output_shapes(self, inputs: Sequence[Sequence[int]]) -> list[list[int]]:
        """The outputs' shapes for inputs of these shapes."""
        if [len(shape) for shape in inputs] != self._ranks:
            raise EngineError(
                f"the inputs have the ranks {[len(shape) for shape in inputs]}, but "
                f"the program's inputs have the ranks {self._ranks}"
            )
        shapes = problem({**self._block, "inputs": [list(s) for s in inputs]})["shapes"]
        return [shapes[i] for i in self._block["outputs"]]

    def run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs once on [N,H,W,C] or [N,C] arrays, and returns the block's outputs.

        Arrays have the dtypes of the block's tensors; bfloat16 is passed as its bits in
        uint16.
        """
        import numpy as np

        arrays = list(map(np.ascontiguousarray, inputs, self._input_dtypes))
        shapes = self.output_shapes([a.shape for a in arrays])
        outputs = list(map(np.empty, shapes, self._output_dtypes))
        self.bind(arrays, outputs)()
        return outputs

    def bind(
        self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Callable[[], None]:
        """Returns a function that runs once on these dense arrays.

        The arrays have the dtypes and shapes of the block's tensors.
        """
        arguments = (
            _pointers([a.ctypes.data for a in inputs]),
            _int64s([d for a in inputs for d in a.shape]),
            len(inputs),
            _pointers([a.ctypes.data for a in outputs]),
            len(outputs),
        )
        alive = (self, *inputs, *outputs)

        def call() -> None:
            _check(_library().ios_program_run(alive[0]._handle, *arguments) == 0)

        return call

    def bind_device(
        self,
        inputs: Sequence[tuple[int, Sequence[int]]],
        outputs: Sequence[int],
        stream: int = 0,
    ) -> Callable[[], None]:
        """Returns a function that enqueues one run on a CUDA stream.

        `inputs` are device addresses with shapes. `outputs` are device addresses for
        tensors of `output_shapes`. All addresses must be aligned as
        kDeviceAlignment in cc/engine/backend/arrays.h says, and their memory must stay
        allocated until the run is done.
        """
        arguments = (
            _pointers([address for address, _ in inputs]),
            _int64s([d for _, shape in inputs for d in shape]),
            len(inputs),
            _pointers(list(outputs)),
            len(outputs),
            stream,
        )

        def call() -> None:
            _check(_library().ios_program_enqueue(self._handle, *arguments) == 0)

        return call
