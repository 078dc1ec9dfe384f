"""Control groups that limit processor time."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def quota_of_one_core() -> Iterator[Path]:
    """A control group with a quota of one core; yields the file of its processes.

    A process that writes "0" into the file joins the group.
    """
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core cannot be limited to one")
    for root, limits in (
        ("cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}),
        ("", {"cpu.max": "100000 100000"}),
    ):
        group = Path("/sys/fs/cgroup", root, f"ios_tf_test_{os.getpid()}")
        with contextlib.suppress(OSError):
            group.mkdir()
            try:
                for name, limit in limits.items():
                    (group / name).write_text(limit)
                yield group / "cgroup.procs"
                return
            finally:
                group.rmdir()
    pytest.skip("this process may not make a control group with a quota")
