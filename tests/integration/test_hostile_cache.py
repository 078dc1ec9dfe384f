"""A cache directory that anybody may write to can slow a process down, but cannot stop
it, lead it out of the directory or make it wait."""

import collections
import ctypes
import json
import os
import shutil
import tempfile
import threading

import pytest
import tensorflow as tf
from cache_helpers import DEVICE, FAST, add_pending
from commands import run, run_prepared

from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.scheduler import Problem
from ios_tf.tuning import cache_admin, cache_files, pending
from ios_tf.tuning.cache import ScheduleCache, pending_directory
from ios_tf.tuning.settings import SearchSettings

BLOCK = {
    "version": 1,
    "name": "two branches",
    "dtype": "float32",
    "inputs": [[1, 8, 8, 4]],
    "operators": [
        {"type": "conv2d", "inputs": [-1], "filters": 4},
        {"type": "conv2d", "inputs": [-1], "filters": 4, "kernel": [3, 3]},
        {"type": "conv2d", "inputs": [0], "filters": 4, "kernel": [3, 3]},
    ],
    "outputs": [1, 2],
}
# Constants of the system call renameat2(2).
_AT_FDCWD, _EXCHANGE = -100, 2
DEEP = b"[" * 200_000 + b"]" * 200_000
SPOILS = {
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "device": lambda path: os.symlink("/dev/zero", path),
    "link": lambda path: os.symlink("/etc/passwd", path),
    "loop": lambda path: os.symlink(path, path),
    "dangling": lambda path: os.symlink("/nothing/at/all", path),
    "deep": b'{"version": ' + DEEP + b', "block": ' + DEEP + b"}",
    "unclosed": b'{"version": 1, "stages": ' + b"[" * 200_000,
    "large": b'{"version": 1, "stages": []' + b" " * 2**24 + b"}",
    "digits": b'{"version": 1, "latency_ms": ' + b"9" * 400 + b', "stages": []}',
    "more digits": b'{"version": 1, "latency_ms": ' + b"9" * 9000 + b', "stages": []}',
    "infinite": b'{"version": 1, "latency_ms": 1e999, "stages": []}',
    "NaN": b'{"version": 1, "latency_ms": NaN, "stages": []}',
    "not UTF-8": b'{"version": 1, "signature": "\xff", "stages": []}',
    "null": b"null",
}


def spoil(path: str, how) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if callable(how):
        how(path)
        return
    with open(path, "wb") as file:
        file.write(how)


@pytest.fixture
def problem() -> Problem:
    return Problem.from_json(engine.problem(BLOCK))


@pytest.fixture
def schedule(cache, problem):
    """A schedule from a search; its file is in the cache."""
    add_pending(cache, problem)
    ((_, found),) = pending.tune(cache, **FAST).schedules
    return found


@pytest.mark.parametrize("how", SPOILS)
def test_what_is_no_schedule_is_one_warning(cache, problem, caplog, capfd, how):
    opened = ScheduleCache(cache, DEVICE)
    path = opened.path(problem.signature, "auto")
    spoil(path, SPOILS[how])
    assert opened.get(problem, SearchSettings()) is None
    if how != "dangling":  # a dangling link counts as a missing file
        (record,) = caplog.records
        assert path in record.getMessage()
        assert "\n" not in record.getMessage() and len(record.getMessage()) < 400
    code, out, _ = run(capfd, "cache", "list", f"--cache_dir={cache}")
    assert code == 0 and len(out.splitlines()) <= 3
    code, _, _ = run(capfd, "cache", "show", "", f"--cache_dir={cache}")
    assert code == (1 if how == "dangling" else 0)
    code, _, _ = run(capfd, "cache", "verify", f"--cache_dir={cache}")
    assert code == (0 if how == "dangling" else 1)
    packed = os.path.join(os.path.dirname(cache), "packed")
    assert cache_admin.export(cache, packed) == 0


@pytest.mark.parametrize("how", SPOILS)
def test_what_is_no_block_is_not_tuned(cache, problem, caplog, how):
    path = os.path.join(pending_directory(cache, DEVICE), f"{problem.signature}.json")
    spoil(path, SPOILS[how])
    tuned = pending.tune(cache, **FAST)
    assert tuned.schedules == ()
    if how != "dangling":
        assert tuned.ignored == (path,)
        (record,) = caplog.records
        assert path in record.getMessage() and "\n" not in record.getMessage()


@pytest.mark.parametrize(
    "operator",
    [
        {"type": "conv2d", "inputs": [-1], "filters": 2**40},
        {"type": "pool", "inputs": [-1], "kernel": [2**31, 2**31]},
        {"type": "activation", "inputs": [2**32]},
        {"type": "matmul", "inputs": [-1], "kernel": [8, 8], "filters": 2**29},
    ],
)
def test_a_block_that_would_take_all_there_is_waits_in_vain(
    cache, problem, caplog, operator
):
    block = {**BLOCK, "operators": [*BLOCK["operators"], operator]}
    path = add_pending(cache, problem)
    with open(path, "w") as file:
        json.dump({"version": 1, "block": block}, file)
    assert pending.tune(cache, **FAST).ignored == (path,)
    assert path in caplog.text


@pytest.mark.parametrize(
    "changed",
    [
        {"stopped_after": "abc"},
        {"stopped_after": [1]},
        {"stopped_after": 1e400},
        {"latency_ms": 10**399},
        {"latency_ms": -1},
        {"latency_ms": 0},
        {"latency_ms": True},
        {"sequential_ms": None},
        {"sequential_ms": "1"},
        {"greedy_ms": {}},
        {"search_seconds": "soon"},
        {"measurements": -5},
        {"parts": "many"},
        {"stages": [{"strategy": "concurrent", "groups": [[10**18]]}]},
        {"stages": [{"strategy": "concurrent", "groups": [[-1]]}]},
        {
            "stages": [
                {"strategy": "split", "groups": [[0, 1, 2]], "micro_batches": 2**40}
            ]
        },
    ],
    ids=lambda changed: "-".join(changed),
)
def test_a_schedule_with_another_value_is_searched_again(
    cache, problem, schedule, capfd, changed
):
    path = ScheduleCache(cache, DEVICE).path(problem.signature, "auto")
    with open(path) as file:
        data = json.load(file)
    with open(path, "w") as file:
        json.dump({**data, **changed}, file)
    code, out, _ = run(capfd, "cache", "list", f"--cache_dir={cache}")
    assert code == 0 and problem.signature[:12] in out
    add_pending(cache, problem)
    ((_, again),) = pending.tune(cache, **FAST).schedules
    assert again.stages
    assert cache_admin.verify(cache) == []


def test_nothing_is_written_through_links(cache, problem, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.makedirs(cache)
    os.symlink(elsewhere, os.path.join(cache, DEVICE))
    path = add_pending(cache, problem)
    tuned = pending.tune(cache, **FAST)
    assert tuned.kept == 1 and os.path.exists(path)
    assert list(elsewhere.iterdir()) == []


def test_no_directory_is_made_through_links(cache, problem, schedule, tmp_path):
    """A link is refused anywhere in the path, even if its target is missing."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for target in (elsewhere, elsewhere / "missing", "../elsewhere"):
        link = os.path.join(cache, "linked")
        os.symlink(target, link)
        path = os.path.join(link, "a", "b", "x.json")
        with pytest.raises(tf.errors.OpError, match="leads out of"):
            cache_files.write(cache, path, "{}")
        os.remove(link)
    assert list(elsewhere.iterdir()) == []
    os.symlink("cpu/inner", os.path.join(cache, "linked"))  # missing, but inside
    cache_files.write(cache, os.path.join(cache, "linked", "a", "x.json"), "{}")
    assert os.path.isfile(os.path.join(cache, "cpu", "inner", "a", "x.json"))


def test_a_link_that_appears_meanwhile_leads_nowhere(cache, tmp_path):
    """Another thread exchanges a directory and a link while files are written."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place = os.path.join(cache, "a")
    os.makedirs(place)
    os.symlink(elsewhere, f"{place}.link")
    names = [os.fsencode(name) for name in (place, f"{place}.link")]
    ended = threading.Event()

    def exchange() -> int:
        libc = ctypes.CDLL(None)
        return libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE)

    def exchange_often():
        while not ended.is_set():
            exchange()

    if exchange():
        pytest.skip("this file system cannot exchange two names")
    thread = threading.Thread(target=exchange_often)
    thread.start()
    outcomes = collections.Counter()
    try:
        for number in range(3000):
            path = os.path.join(place, "b", f"{number}.json")
            try:
                cache_files.write(cache, path, "{}")
                outcomes["written"] += 1
            except tf.errors.OpError as error:
                outcomes[str(error)] += 1
    finally:
        ended.set()
        thread.join()
    assert list(elsewhere.iterdir()) == []
    assert len(outcomes) > 1 and outcomes["written"], outcomes


def test_a_directory_with_a_scheme_is_as_local(cache, problem, capfd):
    for kind in ("pipe", "device"):
        path = ScheduleCache(cache, DEVICE).path(problem.signature, kind)
        spoil(path, SPOILS[kind])
    code, out, _ = run(capfd, "cache", "list", f"--cache_dir=file://{cache}")
    assert code == 0 and out.count("the path is not a regular file") == 2, out


NAMES = [
    "../x.json",
    "cpu/../../x.json",
    "/etc/x.json",
    "cpu//x.json",
    "pending/../x.json",
    "pending/cpu/../x.json",
    "pending/pending/cpu/x.json",
    "cpu/.x.json",
    ".cpu/x.json",
    "cpu/x\u0000.json",
    "cpu\n/x.json",
    "c:\\x/y.json",
    "cpu/" + "x" * 300 + ".json",
    "gs://bucket/x.json",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_in_an_archive_leads_out(tmp_path, schedule, name):
    """A name that leads out of the cache is refused even if its schedule is valid."""
    file, target = tmp_path / "packed.json", tmp_path / "target"
    file.write_text(
        json.dumps({"version": 1, "entries": {name: json.loads(schedule.to_json())}})
    )
    with pytest.raises(UserError, match="is not the name of a cache entry"):
        cache_admin.import_(str(target), str(file))
    assert not target.exists()


@pytest.mark.parametrize("how", SPOILS)
def test_what_is_no_archive_is_one_line(tmp_path, capfd, how):
    path = str(tmp_path / "packed.json")
    spoil(path, SPOILS[how])
    code, _, err = run(capfd, "cache", "import", path, f"--cache_dir={tmp_path}/to")
    assert code == 1 and len(err.splitlines()) == 1, err
    assert not (tmp_path / "to").exists()


def test_an_archive_of_ten_gigabytes_is_not_read(tmp_path):
    path = tmp_path / "packed.json"
    with open(path, "wb") as file:
        file.truncate(10 << 30)  # a sparse file
    with pytest.raises(UserError, match="more than"):
        cache_admin.import_(str(tmp_path / "to"), str(path))


def test_names_in_a_cache_are_printable(cache, capfd):
    """Control characters in names of operators, blocks and files are escaped."""
    evil = "\x1b]0;title\x07\x1b[2J\nname\x9b31m\u202e"
    first, *others = BLOCK["operators"]
    block = {**BLOCK, "name": evil, "operators": [{**first, "name": evil}, *others]}
    problem = Problem.from_json(engine.problem(block))
    path = add_pending(cache, problem)
    with open(path) as file:
        assert "\\u001b" in file.read()
    spoil(os.path.join(cache, "\x1b[31mdevice", "a" * 64 + ".json"), b"{}")
    spoil(os.path.join(cache, DEVICE, "b" * 64 + ".\x1b[31m\n.json"), b"{}")
    tuned = ["tune", "--runs=1", "--sample_count=1", "--warmup_runs=0"]
    for words in (
        ["cache", "list"],
        ["cache", "show", ""],
        ["cache", "verify"],
        tuned,
        ["cache", "prune"],
    ):
        _, out, err = run(capfd, *words, f"--cache_dir={cache}")
        assert all(line.isprintable() for line in out.splitlines()), out
        assert "\x1b" not in err and "\x9b" not in err, err
        assert "x1b" in out, words


def test_a_full_disk_leaves_nothing_and_the_block_waits(cache, problem):
    """A limit on the size of files has the effect of a full disk."""
    path = add_pending(cache, problem)
    code = f"""
import resource, signal, sys
from ios_tf.tuning import pending
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
tuned = pending.tune(sys.argv[1], **{FAST})
print(len(tuned.schedules), tuned.kept)
"""
    assert run_prepared("-c", code, cache).stdout == "1 1\n"
    left = [name for _, _, names in os.walk(cache) for name in names]
    assert [n for n in left if "latencies" not in n] == [os.path.basename(path)]


_AS_NOBODY = f"""
import os, sys
from ios_tf.tuning import pending
if os.geteuid() == 0:
    os.setuid(65534)
tuned = pending.tune(sys.argv[1], **{FAST})
print(len(tuned.schedules), tuned.kept)
"""


def test_a_directory_that_may_only_be_read(cache, problem, schedule):
    """A user who may only read the cache uses its schedules.

    Schedules of other blocks are searched in every process, because they are not
    stored.
    """
    other = Problem.from_json(engine.problem({**BLOCK, "inputs": [[2, 8, 8, 4]]}))
    add_pending(cache, other)
    with tempfile.TemporaryDirectory() as directory:  # pytest's are root's only
        os.chmod(directory, 0o755)
        copy = shutil.copytree(cache, os.path.join(directory, "cache"))
        for where, _, names in os.walk(copy):
            os.chmod(where, 0o555)
            for name in names:
                os.chmod(os.path.join(where, name), 0o444)
        assert run_prepared("-c", _AS_NOBODY, copy).stdout == "1 1\n"
        for where, _, _ in os.walk(copy):
            os.chmod(where, 0o755)
