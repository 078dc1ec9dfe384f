"""Loads the native library that holds the ops and TensorFlow's plugin."""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from ios_tf.errors import NativeLibraryError, UserError
from ios_tf.native import engine, platforms
from ios_tf.reasons import Decision, Reason

LIBRARIES = engine.LIBRARIES

_TEXT, _POINTER = ctypes.c_char_p, ctypes.c_void_p
_INT, _INT64 = ctypes.c_int, ctypes.c_int64
_SIZE, _STRING = ctypes.POINTER(_INT64), ctypes.POINTER(_POINTER)
# The functions of the C API: their return types and argument types.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ios_tf_free_string": (None, [_POINTER]),
    "ios_tf_enable": (_POINTER, [_TEXT, _TEXT, _INT64, _INT64, _TEXT]),
    "ios_tf_disable": (None, []),
    "ios_tf_status": (_POINTER, []),
    "ios_tf_show_warnings": (None, []),
    "ios_tf_packings": (_INT64, []),
    "ios_tf_set_computes_bfloat16": (None, [_INT]),
    "ios_tf_names": (_POINTER, []),
    "ios_tf_open_search": (None, [_POINTER, _POINTER, _POINTER, _INT]),
    "ios_tf_close_search": (None, []),
    "ios_tf_take_problem": (_INT64, [_STRING]),
    "ios_tf_begin_search": (_INT, [_INT64]),
    "ios_tf_give_schedule": (None, [_INT64, _TEXT, _TEXT]),
    "ios_tf_open_graph": (_POINTER, [_TEXT, _INT64, _INT64, _INT64, _STRING]),
    "ios_tf_close_graph": (None, [_POINTER]),
    "ios_tf_graph_blocks": (
        _POINTER,
        [_POINTER, _INT64, _INT64, _TEXT, _TEXT, _STRING],
    ),
    "ios_tf_rewritten_graph": (_POINTER, [_POINTER, _TEXT, _SIZE, _STRING]),
    "ios_tf_lowered_graph": (_POINTER, [_POINTER, _INT64, _TEXT, _SIZE, _STRING]),
    "ios_tf_release_profilers": (None, []),
    "ios_tf_read_cache_file": (_INT, [_TEXT, _TEXT, _INT64, _STRING, _SIZE]),
    "ios_tf_write_cache_file": (_INT, [_TEXT, _TEXT, _TEXT, _INT64, _STRING]),
    "ios_tf_check_inside_cache": (_INT, [_TEXT, _TEXT, _STRING]),
}
_logger = logging.getLogger("ios_tf")
_lock = threading.Lock()
_ops: ModuleType | None = None


def load_with_tensorflow() -> None:
    """Loads the plugin when TensorFlow is imported, or now if it is already imported.

    If the library cannot be loaded, this logs one line, and an error is raised only
    when the library is used: programs may import ios_tf for parts that do not need the
    library, and TensorFlow works without it.
    """
    try:
        import wrapt
    except ImportError:  # TensorFlow needs wrapt, so it is not installed either
        return

    def load(_module: ModuleType) -> None:
        if not (LIBRARIES / "libios_tf_ops.so").exists():
            return
        try:
            ops()
        except NativeLibraryError as error:
            _logger.warning("ios_tf: %s", Decision(Reason.NO_LIBRARY, str(error)))

    wrapt.register_post_import_hook(load, "tensorflow")


def show_warnings() -> None:
    """Shows the plugin's warnings even if TensorFlow's log level hides them."""
    if _ops is not None:
        runtime().ios_tf_show_warnings()


def ops() -> ModuleType:
    """The Python functions of the native ops; loads the library on the first call.

    Raises:
      NativeLibraryError: one line that says why it cannot be loaded.
    """
    global _ops
    if _ops is None:
        # TensorFlow is imported without holding the lock, because its import calls this
        # function, perhaps in another thread.
        _tensorflow()
    with _lock:
        if _ops is None:
            _ops = _load_ops()
        return _ops


def runtime() -> ctypes.CDLL:
    """The C API of the native ops' library (`*_api.h` of cc/tensorflow).

    Raises:
      NativeLibraryError: as `ops`.
    """
    ops()
    return _runtime()


@functools.cache
def _runtime() -> ctypes.CDLL:
    # TensorFlow has already loaded the library, so that ctypes gets the same instance.
    return engine.typed_library(LIBRARIES / "libios_tf_ops.so", _SIGNATURES)


def take(address: int | None, size: int = -1) -> bytes | None:
    """Returns the content of a string of the C API, and frees the string.

    Args:
      address: the string; the result is None if it is null.
      size: the number of bytes; -1 reads up to the terminating 0.
    """
    if not address:
        return None
    try:
        return ctypes.string_at(address, size)
    finally:
        runtime().ios_tf_free_string(address)


def version_mismatch(running: str, built: str) -> str | None:
    """An error message if the library was built for another TensorFlow, or None.

    TensorFlow's C++ interface changes with its minor version.
    """
    if minor(running) == minor(built):
        return None
    return (
        f"this ios_tf is built for TensorFlow {built}, but {running} is running, so "
        "converted models run as plain TensorFlow. Install the matching version with: "
        f"pip install 'tensorflow~={minor(built)}.0'"
    )


def minor(version: str) -> str:
    """The first two numbers of a version."""
    return ".".join(version.split(".")[:2])


def built_against() -> str:
    """Returns the version of TensorFlow for which the library was built."""
    try:
        return str(json.loads((LIBRARIES / "build.json").read_text())["tensorflow"])
    except (OSError, ValueError, KeyError):
        raise NativeLibraryError(_missing(LIBRARIES / "build.json")) from None


def _tensorflow() -> ModuleType:
    path = LIBRARIES / "libios_tf_ops.so"
    if not path.exists():
        raise NativeLibraryError(_missing(path))
    try:
        import tensorflow as tf
    except ImportError as error:
        raise NativeLibraryError(f"TensorFlow cannot be imported: {error}") from None
    return tf


def _load_ops() -> ModuleType:
    path = LIBRARIES / "libios_tf_ops.so"
    tf = _tensorflow()
    mismatch = version_mismatch(tf.__version__, built_against())
    if mismatch:
        raise NativeLibraryError(mismatch)
    try:
        engine.load()
        return tf.load_op_library(str(path))
    except (tf.errors.OpError, OSError, engine.EngineError) as error:
        reason = platforms.explained(str(error).splitlines()[0])
        raise NativeLibraryError(f"{path} cannot be loaded: {reason}") from None


def device_fingerprint(device: str) -> str:
    """Returns a device's fingerprint in a form that is valid in directory names.

    Raises:
      UserError: the device does not exist.
      NativeLibraryError: the library is missing.
    """
    path = LIBRARIES / "libios_engine.so"
    if not path.exists():
        raise NativeLibraryError(_missing(path))
    try:
        return engine.device_directory(engine.device_fingerprint(device))
    except engine.EngineError as error:
        raise UserError(str(error)) from None


def _missing(path: Path) -> str:
    return (
        f"the native library is not built ({path} is missing). Install the package "
        "with pip install . or pip install -e . from a checkout"
    )
