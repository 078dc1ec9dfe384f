"""The memory of this process: its peak, and how to return memory to the system.

A conversion copies a network's graph many times.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import resource

# Python's garbage collection takes half a second, so it does not run to free fewer
# bytes than this.
_WORTHWHILE = 16 << 20

# More memory than the handling of an error takes. Python allocates 1 MiB at once.
_RESERVE = 8 << 20


def peak_bytes() -> int:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def release_unused(size: int = _WORTHWHILE) -> None:
    """Frees unreferenced objects, and returns their memory to the system.

    Converting InceptionV3 (95 MB of weights) leaves gigabytes of freed copies.

    Args:
      size: bytes of the graph that is no longer needed; small graphs are ignored.
    """
    if size >= _WORTHWHILE:
        gc.collect()
        return_freed()


def return_freed() -> None:
    """Returns freed memory to the system, which glibc otherwise keeps."""
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def save_addresses() -> None:
    """Makes all threads allocate from one arena, to need less address space.

    Otherwise glibc reserves 64 MiB of addresses for the arena of each thread.
    """
    arena_max = -8  # M_ARENA_MAX of malloc.h
    with contextlib.suppress(AttributeError, OSError):  # another C library
        ctypes.CDLL(None).mallopt(arena_max, 1)


def reserve() -> mmap.mmap:
    """Reserves memory, as a context manager that frees it when its block ends.

    The memory is free again when an error of the block is handled, even if the error
    is a lack of memory.

    Raises:
      MemoryError: there is not enough memory.
    """
    try:
        return mmap.mmap(-1, _RESERVE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{_RESERVE} bytes cannot be reserved") from error
