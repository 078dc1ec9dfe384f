"""Locks of parts of files, which the kernel releases when a process ends.

A lock belongs to an open file, not to the process (Linux's open file description
locks). On network filesystems, it excludes processes of other machines, too.
"""

from __future__ import annotations

import fcntl
import os
import struct

# The C structure flock: kind of lock, meaning of the start, start, length, process.
_FLOCK = struct.Struct("@hhqqi0q")
WHOLE = (0, 0)


def lock(file: int, part: tuple[int, int] = WHOLE) -> None:
    """Locks a part, given by its start and length, for this open file alone.

    Raises:
      BlockingIOError: another open file has locked some of it.
      OSError: the filesystem has no locks, or the file is not open for writing.
    """
    try:
        _set(file, fcntl.F_WRLCK, part)
    except PermissionError as error:  # POSIX allows both errors
        raise BlockingIOError(error.errno, error.strerror) from None


def unlock(file: int, part: tuple[int, int] = WHOLE) -> None:
    """Unlocks a part.

    Raises:
      OSError: the filesystem has no locks.
    """
    _set(file, fcntl.F_UNLCK, part)


def _set(file: int, kind: int, part: tuple[int, int]) -> None:
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, *part, 0))
