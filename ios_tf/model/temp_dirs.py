"""Makes temporary directories, and removes those of processes that were killed."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator

# A directory that was made less than this many seconds ago may not be locked yet,
# although its process is alive.
_YOUNG_SECONDS = 60
_PREFIX = "ios_tf_run_"
_STEP_PREFIX = "ios_tf_step_"


@contextlib.contextmanager
def owned(directory: str) -> Iterator[None]:
    """Shows other processes that a local directory is in use while the block runs.

    The kernel releases the lock when the process ends in any way.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a filesystem without locks
            stack.enter_context(_locked(directory))
        yield


def remove_abandoned(parent: str, prefix: str, suffix: str = "") -> None:
    """Removes directories PREFIX*SUFFIX of `parent` whose owners have died."""
    pattern = f"{glob.escape(os.path.join(parent, prefix))}*{glob.escape(suffix)}"
    for path in glob.glob(pattern):
        # Errors are ignored: a directory that cannot be read belongs to another user.
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            # abs() is needed because the clock may have been set back since.
            if abs(time.time() - found.st_mtime) < _YOUNG_SECONDS:
                continue
            if found.st_uid == os.geteuid() and not os.path.islink(path):
                with _locked(path):
                    shutil.rmtree(path)


def remove_abandoned_steps() -> None:
    """Removes the directories that `step_directory` made for dead processes."""
    remove_abandoned(tempfile.gettempdir(), _STEP_PREFIX)


@contextlib.contextmanager
def step_directory() -> Iterator[str]:
    """A temporary directory for the files of one step.

    The state of the process, which may be a user's program, does not change (unlike
    with `temporary_directory`). Directories of dead processes are not removed here; a
    conversion, which has many steps, calls `remove_abandoned_steps` once at its start.
    """
    with (
        tempfile.TemporaryDirectory(prefix=_STEP_PREFIX) as directory,
        owned(directory),
    ):
        yield directory


@contextlib.contextmanager
def temporary_directory() -> Iterator[str]:
    """A directory for all temporary files of this process.

    Libraries also write their files there. If a process is killed, its directory stays.
    So this function first removes the directories of dead processes.
    """
    parent = tempfile.gettempdir()
    remove_abandoned(parent, _PREFIX)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as directory, owned(directory):
        before, environment = tempfile.tempdir, os.environ.get("TMPDIR")
        tempfile.tempdir = os.environ["TMPDIR"] = directory
        try:
            yield directory
        finally:
            tempfile.tempdir = before
            if environment is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = environment


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Locks a directory while the block runs; raises OSError if it is locked."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
