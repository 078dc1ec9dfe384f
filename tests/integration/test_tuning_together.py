"""Several processes tune one cache: they divide its pending blocks."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading

import prepared_python
import tensorflow as tf
from cache_helpers import DEVICE, add_pending
from threads import in_threads

from ios_tf.native import engine
from ios_tf.scheduler import Problem
from ios_tf.tuning import cache_admin, claims, pending
from ios_tf.tuning.claims import Claims

FAST = {"warmup_runs": 0, "runs": 1, "sample_count": 1}
# Argument: the cache. Prints the signatures of the blocks that this process searched.
_TUNE = f"""
import json, sys
from ios_tf.tuning import pending
print("ready", flush=True)
sys.stdin.readline()
tuned = pending.tune(sys.argv[1], **{FAST})
print(json.dumps([problem.signature for problem, _ in tuned.schedules]))
"""
# Arguments: the cache and the device. Claims the first block until it is killed.
_HANG = """
import signal, sys
from ios_tf.tuning import pending
from ios_tf.tuning.claims import Claims
path = next(pending.pending_files(sys.argv[1], sys.argv[2]))
with Claims(sys.argv[1]).claimed(path) as is_mine:
    print(is_mine, flush=True)
    signal.pause()
"""


def problem(filters: int) -> Problem:
    """Two branches of different depth that meet."""
    convolution = {"type": "conv2d", "filters": filters}
    block = {
        "version": 1,
        "name": f"branches of {filters}",
        "dtype": "float32",
        "inputs": [[1, 8, 8, 4]],
        "operators": [
            {**convolution, "inputs": [-1], "name": "a"},
            {**convolution, "inputs": [-1], "name": "b"},
            {**convolution, "inputs": [1], "name": "c"},
            {"type": "add", "inputs": [0, 2], "name": "sum"},
        ],
        "outputs": [3],
    }
    return Problem.from_json(engine.problem(block))


def fill(cache: str, count: int) -> list[str]:
    """Adds pending blocks; returns their signatures in the order of their files."""
    found = [problem(4 + k) for k in range(count)]
    for one in found:
        add_pending(cache, one)
    return sorted(one.signature for one in found)


def start(python: str, code: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [python, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_processes_divide_the_blocks(cache):
    signatures = fill(cache, 12)
    processes = [start(prepared_python.path(), _TUNE, cache) for _ in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    searched = [json.loads(output) for output in outputs]
    assert sorted(itertools.chain(*searched)) == signatures
    assert all(searched)
    assert list(pending.pending_files(cache, DEVICE)) == []
    directory = os.path.join(cache, "pending", DEVICE)
    assert os.listdir(directory) == []
    assert not cache_admin.verify(cache)


def test_a_killed_process_s_block_is_searched_by_another(cache, monkeypatch):
    signatures = fill(cache, 2)
    process = start(sys.executable, _HANG, cache, DEVICE)
    assert process.stdout.readline() == "True\n"
    (path, _) = pending.pending_files(cache, DEVICE)
    with Claims(cache).claimed(path) as is_mine:
        assert not is_mine
    process.send_signal(signal.SIGKILL)
    process.communicate()
    monkeypatch.setattr(claims, "_LEASE_SECONDS", 0.2)
    tuned = pending.tune(cache, **FAST)
    # The other block was free from the beginning.
    assert [p.signature for p, _ in tuned.schedules] == signatures[::-1]
    assert os.listdir(os.path.join(cache, "pending", DEVICE)) == []


def test_a_claim_that_is_renewed_stays(cache, monkeypatch):
    """A claim that is renewed stays valid, even for many times the lease."""
    fill(cache, 1)
    (path,) = pending.pending_files(cache, DEVICE)
    monkeypatch.setattr(claims, "_LEASE_SECONDS", 0.5)
    monkeypatch.setattr(claims, "_RENEWAL_SECONDS", 0.01)
    renewals = 0
    write = claims.Claims._write

    def count(self, claim):
        nonlocal renewals
        renewals += 1
        return write(self, claim)

    monkeypatch.setattr(claims.Claims, "_write", count)
    other = Claims(cache)
    with Claims(cache).claimed(path) as is_mine:
        assert is_mine
        while renewals < 100:
            with other.claimed(path) as is_others:
                assert not is_others
    with other.claimed(path) as is_others:
        assert is_others


def test_one_process_takes_an_abandoned_block_over(cache, monkeypatch):
    fill(cache, 1)
    (path,) = pending.pending_files(cache, DEVICE)
    left = claims._claim_of(path)
    with open(left, "w") as file:
        file.write("a process that was killed")
    everybody = [Claims(cache) for _ in range(8)]
    monkeypatch.setattr(claims, "_LEASE_SECONDS", -1.0)
    for one in everybody:  # each sees the claim for the first time
        with one.claimed(path) as is_mine:
            assert not is_mine
    monkeypatch.setattr(claims, "_LEASE_SECONDS", 60.0)
    for one in everybody:
        content, since = one._seen[left]
        one._seen[left] = content, since - 61.0
    ready, leave = threading.Barrier(8), threading.Barrier(8)

    def claim(one: Claims) -> bool:
        ready.wait()
        with one.claimed(path) as is_mine:
            leave.wait()
            return is_mine

    assert sorted(in_threads(claim, everybody)) == [False] * 7 + [True]
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_claim_that_cannot_be_written_keeps_nobody_from_searching(cache, monkeypatch):
    (signature,) = fill(cache, 1)
    (path,) = pending.pending_files(cache, DEVICE)
    os.mkdir(claims._claim_of(path))
    monkeypatch.setattr(claims, "_LEASE_SECONDS", 0.2)
    tuned = pending.tune(cache, **FAST)
    assert [p.signature for p, _ in tuned.schedules] == [signature]


def test_object_storage():
    """On storage without links and atomic renames, no block is lost and claims work."""
    cache = "ram://tuning_together"
    signatures = fill_remote(cache, 3)
    paths = list(pending.pending_files(cache, DEVICE))
    with Claims(cache).claimed(paths[0]) as is_mine:
        assert is_mine
        with Claims(cache).claimed(paths[0]) as is_others:
            assert not is_others
        with Claims(cache).claimed(paths[1]) as is_others:
            assert is_others
    results = in_threads(lambda _: pending.tune(cache, **FAST), range(2))
    searched = {p.signature for tuned in results for p, _ in tuned.schedules}
    assert sorted(searched) == signatures
    assert list(pending.pending_files(cache, DEVICE)) == []
    assert not cache_admin.verify(cache)


def fill_remote(cache: str, count: int) -> list[str]:
    found = [problem(4 + k) for k in range(count)]
    directory = pending.pending_directory(cache, DEVICE)
    tf.io.gfile.makedirs(directory)
    for one in found:
        with tf.io.gfile.GFile(f"{directory}/{one.signature}.json", "w") as file:
            file.write(json.dumps(engine.problem(one.block)))
    return sorted(one.signature for one in found)
