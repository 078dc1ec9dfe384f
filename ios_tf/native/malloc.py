"""Gives memory back: a network's graph is copied many times on its way."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import resource

# Bytes whose release is worth the half second that Python takes to look for them.
_WORTHWHILE = 16 << 20


def release_unused(size: int = _WORTHWHILE) -> None:
    """Frees what nothing refers to, and returns it to the system.

    Converting InceptionV3 (95 MB of weights) leaves gigabytes of freed copies.

    Args:
      size: bytes of the graph that is no longer needed; little is left to Python.
    """
    if size >= _WORTHWHILE:
        gc.collect()
        return_freed()


def return_freed() -> None:
    """Returns freed memory to the system, which glibc otherwise keeps."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def save_addresses() -> None:
    """Has all threads allocate from one arena, where the address space is limited.

    glibc reserves 64 MiB of addresses for the arena of each thread.
    """
    arena_max = -8  # M_ARENA_MAX of malloc.h
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(arena_max, 1)


def resident() -> float:
    """MiB that are resident, without what the allocator could give back (glibc's)."""
    return_freed()
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / 2**20
