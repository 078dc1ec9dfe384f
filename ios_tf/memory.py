"""Gives memory back: a network's graph is copied many times on its way."""

from __future__ import annotations

import contextlib
import ctypes
import gc


def release_unused() -> None:
    """Frees what nothing refers to, and returns it to the system.

    Converting InceptionV3 (95 MB of weights) leaves gigabytes of freed copies.
    """
    gc.collect()
    return_freed()


def return_freed() -> None:
    """Returns freed memory to the system, which glibc otherwise keeps."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
