"""Directories that a process makes for a while, and those that dead ones have left."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
import time
from collections.abc import Iterator

# Between making a directory and locking it no process takes so long.
_YOUNG_SECONDS = 60
_PREFIX = "ios_tf_run_"
_STEP_PREFIX = "ios_tf_step_"


@contextlib.contextmanager
def owned(directory: str) -> Iterator[None]:
    """While the block runs, other processes see that a local directory is in use.

    The kernel gives the lock back when the process ends, however it ends.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a filesystem without locks
            stack.enter_context(_locked(directory))
        yield


def remove_abandoned(parent: str, prefix: str, suffix: str = "") -> None:
    """Removes directories of these names whose owners have died."""
    pattern = f"{glob.escape(os.path.join(parent, prefix))}*{glob.escape(suffix)}"
    for path in glob.glob(pattern):
        # Directories that cannot be looked at belong to somebody else.
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            # A clock may have been set back since.
            if abs(time.time() - found.st_mtime) < _YOUNG_SECONDS:
                continue
            if found.st_uid == os.geteuid() and not os.path.islink(path):
                with _locked(path):
                    shutil.rmtree(path)


def remove_abandoned_steps() -> None:
    """Removes what `step_directory` made for processes that have died."""
    remove_abandoned(tempfile.gettempdir(), _STEP_PREFIX)


@contextlib.contextmanager
def step_directory() -> Iterator[str]:
    """A directory for the files of one step.

    Nothing of the process changes, which may be anybody's. Those of dead processes are
    left: a conversion has many steps, and calls `remove_abandoned_steps` once, where it
    begins.
    """
    with (
        tempfile.TemporaryDirectory(prefix=_STEP_PREFIX) as directory,
        owned(directory),
    ):
        yield directory


@contextlib.contextmanager
def temporary_directory() -> Iterator[str]:
    """A directory for all temporary files of this process; removes those of dead ones.

    Libraries put theirs there, too, which they leave behind when they are killed.
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
    """Raises OSError where it is locked."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
