"""The memory of this process."""

import resource

from ios_tf.native import malloc

_MEBIBYTE = 2**20


def resident() -> float:
    """MiB that are resident, without what the allocator could give back (glibc's)."""
    malloc.return_freed()
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * resource.getpagesize() / _MEBIBYTE
