"""Claims of pending blocks, by which processes on any machines share the searches.

    <directory>/pending/<device>/<block signature>.claim.tmp

The process that makes the file searches the block, and rewrites the file regularly. If
a file stays the same for `_LEASE_SECONDS`, its process was killed or cut off, and
another process takes the block over. Only changes of a file count: the clocks of
machines may differ.

On local and network filesystems, only one process can make the file. Object storage has
no such operation here: processes that claim a block at the same moment may all search
it. Each then stores a valid schedule, so that only time is lost.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Iterator, Sequence

import tensorflow as tf

from ios_tf import file_locks
from ios_tf.tuning import cache_files

# `ios_tf cache` treats a claim as a temporary file.
_SUFFIX = ".claim.tmp"
_LEASE_SECONDS = 60.0
_RENEWAL_SECONDS = 10.0
_LOOK_AGAIN_SECONDS = 0.5
_MAX_BYTES = 4096


class Claims:
    """The claims that this process makes and sees, in one schedule cache."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._name = f"{os.uname().nodename} {os.getpid()} {secrets.token_hex(8)}"
        # Path -> the content of another process's claim, and when it was first seen.
        self._seen: dict[str, tuple[bytes, float]] = {}

    @contextlib.contextmanager
    def claimed(self, pending: str) -> Iterator[bool]:
        """Claims the block of a pending file during the `with` block.

        Yields:
          False if another process has claimed the block. True also if the claim cannot
          be written.
        """
        path = _claim_of(pending)
        if not self._claim(path):
            yield False
            return
        ended = threading.Event()
        renewing = threading.Thread(target=self._renew, args=[path, ended], daemon=True)
        renewing.start()
        try:
            yield True
        finally:
            ended.set()
            renewing.join()
            if self._is_own(path):
                cache_files.remove(path)

    def wait(self, pending: Sequence[str]) -> list[str]:
        """Waits until no other process searches one of the blocks.

        Returns:
          The pending files that still exist. The list is empty if other processes
          have searched all of the blocks.
        """
        while pending:
            pending = [path for path in pending if tf.io.gfile.exists(path)]
            if any(self._is_free(_claim_of(path)) for path in pending):
                break
            time.sleep(_LOOK_AGAIN_SECONDS)
        return list(pending)

    def _claim(self, path: str) -> bool:
        content = self._read(path)
        if content is None:
            return self._create(path)
        return self._is_abandoned(path, content) and self._take_over(path, content)

    def _is_abandoned(self, path: str, content: bytes) -> bool:
        """Returns whether a claim has had this content for too long."""
        known, since = self._seen.get(path, (None, 0.0))
        if content == known:
            return time.monotonic() - since > _LEASE_SECONDS
        self._seen[path] = content, time.monotonic()
        return False

    def _is_free(self, path: str) -> bool:
        content = self._read(path)
        return content is None or self._is_abandoned(path, content)

    def _create(self, path: str) -> bool:
        """Makes a claim if there is none."""
        if "://" in path:
            return self._overwrite(path)
        new = self._unique(path)
        if not self._write(new):
            return True
        try:
            os.link(new, path)  # fails if the file exists
        except FileExistsError:
            return False
        except OSError:  # a filesystem without links
            return self._overwrite(path)
        finally:
            cache_files.remove(new)
        return True

    def _overwrite(self, path: str) -> bool:
        """Makes or replaces a claim. The process that writes last owns the claim."""
        return not self._write(path) or self._is_own(path)

    def _take_over(self, path: str, abandoned: bytes) -> bool:
        """Replaces the claim of a process that no longer renews it."""
        if "://" in path:
            return self._overwrite(path)
        with contextlib.ExitStack() as stack:
            try:
                file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                stack.callback(os.close, file)
                file_locks.lock(file)
            except (FileNotFoundError, BlockingIOError):
                return False
            except OSError:  # a filesystem without locks
                pass
            # In the meantime, another process may have replaced the claim.
            if self._read(path) != abandoned:
                return False
            self._write(path)
            return True

    def _renew(self, path: str, ended: threading.Event) -> None:
        while not ended.wait(_RENEWAL_SECONDS) and self._is_own(path):
            self._write(path)

    def _unique(self, path: str) -> str:
        """A path in the directory of a claim, which only this process uses."""
        token = self._name.rpartition(" ")[2]
        return f"{path.removesuffix(_SUFFIX)}.{token}{_SUFFIX}"

    def _is_own(self, path: str) -> bool:
        return (self._read(path) or b"").startswith(self._name.encode())

    def _read(self, path: str) -> bytes | None:
        """The content of a claim; None if the file does not exist."""
        try:
            return cache_files.read(self._directory, path, _MAX_BYTES)
        except tf.errors.NotFoundError:
            return None
        except tf.errors.OpError:
            return b""

    def _write(self, path: str) -> bool:
        """Writes a claim with new content. Returns whether the file was written."""
        text = f"{self._name} {secrets.token_hex(4)}\n"
        try:
            cache_files.write(self._directory, path, text)
        except tf.errors.OpError:
            return False
        return True


def _claim_of(pending: str) -> str:
    return pending.removesuffix(".json") + _SUFFIX
