"""The memory of this process."""

import ctypes
import resource

_MEBIBYTE = 2**20


def resident() -> float:
    """MiB that are resident, without what the allocator could give back (glibc's)."""
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / _MEBIBYTE
