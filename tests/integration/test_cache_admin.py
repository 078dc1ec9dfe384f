"""ios_tf tune and ios_tf cache: pending blocks, stored schedules, and removals."""

import json
import os
import shutil
import subprocess
import time

import graph_helpers as gh
import keras
import prepared_python
import pytest
from cache_helpers import DEVICE, FAST, add_pending
from commands import run
from keras import layers

from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.reasons import Reason
from ios_tf.scheduler import Problem
from ios_tf.tuning import cache_admin, pending
from ios_tf.tuning.cache import ScheduleCache


def block(filters: int, batch: int = 1) -> dict:
    """Two branches of different depth that meet."""
    return {
        "version": 1,
        "name": f"branches of {filters}",
        "dtype": "float32",
        "inputs": [[batch, 8, 8, 4]],
        "operators": [
            {"type": "conv2d", "inputs": [-1], "filters": filters, "name": "a"},
            {"type": "conv2d", "inputs": [-1], "filters": filters, "name": "b"},
            {"type": "conv2d", "inputs": [1], "filters": filters, "name": "c"},
            {"type": "add", "inputs": [0, 2], "name": "sum"},
        ],
        "outputs": [3],
    }


def problem(filters: int, batch: int = 1) -> Problem:
    return Problem.from_json(engine.problem(block(filters, batch)))


@pytest.fixture
def filled(cache) -> str:
    """A cache with two schedules and a pending block."""
    for filters in (4, 6):
        add_pending(cache, problem(filters))
    pending.tune(cache, **FAST)
    add_pending(cache, problem(8))
    return cache


def test_the_list_says_how_many_blocks_are_tuned_and_since_when(filled):
    found = cache_admin.entries(filled)
    hours = [5 * 24 + 1, 50, 3.5]
    now = time.time()
    for entry, age in zip(found, hours, strict=True):
        os.utime(entry.path, (now, now - 3600 * age))
    found = cache_admin.entries(filled)
    for entry, age in zip(found, hours, strict=True):
        assert entry.age_s == pytest.approx(3600 * age, abs=60)
    title = cache_admin.list_table(found).splitlines()[0]
    assert title == (
        f"{DEVICE}: 3 blocks, 2 tuned, 1 pending; newest entry 3 h old, oldest 5 days"
    )


def test_tune_searches_all_that_waits(cache):
    waiting = [problem(4), problem(4, batch=8), problem(6)]
    paths = [add_pending(cache, p) for p in waiting]
    tuned = pending.tune(cache, **FAST)
    assert {p.signature for p, _ in tuned.schedules} == {p.signature for p in waiting}
    assert {p.shapes[0][0] for p, _ in tuned.schedules} == {1, 8}
    for found, schedule in tuned.schedules:
        engine.check_schedule(found.block, schedule.to_json())
        path = ScheduleCache(cache, DEVICE).path(found.signature, "auto")
        with open(path) as file:
            assert json.load(file)["latency_ms"] > 0
    assert not any(os.path.exists(path) for path in paths)
    assert pending.tune(cache, **FAST).schedules == ()


def test_what_waits_for_another_device_stays(cache):
    path = add_pending(cache, problem(4), device="another")
    assert pending.tune(cache, **FAST).schedules == ()
    assert os.path.exists(path)


def bad_blocks() -> dict[str, bytes]:
    good = engine.problem(block(4))
    other = engine.problem(block(6))
    cycle = engine.problem(block(4))
    cycle["block"]["operators"][0]["inputs"] = [3]
    return {
        "empty": b"",
        "truncated": json.dumps(good).encode()[:100],
        "another block": json.dumps(other).encode(),
        "a cycle": json.dumps(cycle).encode(),
        "no block": b'{"version": 1}',
        "a list": b"[]",
        "deep": b"[" * 200_000,
    }


@pytest.mark.parametrize("name", bad_blocks())
def test_tune_ignores_what_is_no_block(cache, caplog, name):
    path = add_pending(cache, problem(4))
    with open(path, "wb") as file:
        file.write(bad_blocks()[name])
    add_pending(cache, problem(8))
    tuned = pending.tune(cache, **FAST)
    assert [p.signature for p, _ in tuned.schedules] == [problem(8).signature]
    assert tuned.ignored == (path,)
    (record,) = caplog.records
    assert path in record.getMessage()
    assert "\n" not in record.getMessage()


def test_tune_ignores_what_the_engine_does_not_compute(cache, caplog):
    half = Problem.from_json(engine.problem({**block(4), "dtype": "float16"}))
    path = add_pending(cache, half)
    assert pending.tune(cache, **FAST).ignored == (path,)
    (record,) = caplog.records
    assert record.getMessage().endswith(f"[{Reason.NOT_SEARCHED.code}]")


def test_nothing_but_the_block_is_believed(cache):
    found = engine.problem(block(4))
    found["merge_classes"] = [[0, 3]]
    found["shapes"] = [[1, 1, 1, 1]] * 4
    path = add_pending(cache, problem(4))
    with open(path, "w") as file:
        json.dump(found, file)
    ((read, _),) = pending.tune(cache, **FAST).schedules
    assert read == problem(4)


def test_several_processes_tune_at_the_same_time(cache):
    waiting = [problem(filters) for filters in range(4, 10)]
    for p in waiting:
        add_pending(cache, p)
    code = f"from ios_tf.tuning.pending import tune; tune({cache!r}, **{FAST!r})"
    processes = [
        subprocess.Popen([prepared_python.path(), "-c", code], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for process in processes:
        _, error = process.communicate()
        assert process.returncode == 0, error
    found = cache_admin.entries(cache)
    assert {e.signature for e in found} == {p.signature for p in waiting}
    assert {e.kind for e in found} == {"schedule"}
    assert cache_admin.verify(cache) == []


def test_list_and_show(capfd, filled):
    code, out, _ = run(capfd, "cache", "list", f"--cache_dir={filled}")
    assert code == 0
    for filters in (4, 6, 8):
        assert problem(filters).signature[:12] in out
    assert out.count("pending: 4 operators") == 1
    signature = problem(4).signature
    code, out, _ = run(capfd, "cache", "show", signature[:9], f"--cache_dir={filled}")
    assert code == 0
    assert "stage 0: " in out
    assert "latency_ms: " in out
    code, _, err = run(capfd, "cache", "show", "nothing", f"--cache_dir={filled}")
    assert code == 1
    assert "no entry starts with 'nothing'" in err


def test_results_are_json(capfd, filled, tmp_path):
    def document(*words):
        code, out, err = run(capfd, "cache", *words, f"--cache-dir={filled}", "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    listed = document("list")
    assert {one["signature"] for one in listed} == {
        problem(filters).signature for filters in (4, 6, 8)
    }
    signature = problem(4).signature
    (shown,) = document("show", signature[:9])
    assert (shown["signature"], shown["kind"]) == (signature, "schedule")
    assert shown["data"]["latency_ms"] > 0
    assert document("verify") == []
    assert document("prune") == []
    file = str(tmp_path / "packed")
    assert document("export", file) == {"file": file, "entries": len(listed)}
    assert document("import", file) == {"new": 0, "existing": len(listed)}
    assert document("clear")["entries"] == len(listed)
    assert document("list") == []


def damage(cache: str, filters: int) -> str:
    path = ScheduleCache(cache, DEVICE).path(problem(filters).signature, "auto")
    with open(path) as file:
        schedule = json.load(file)
    schedule["stages"].pop()
    schedule["stages"].append(schedule["stages"][0])
    with open(path, "w") as file:
        json.dump(schedule, file)
    return path


def test_verify_names_what_would_be_ignored(capfd, filled):
    code, out, _ = run(capfd, "cache", "verify", f"--cache_dir={filled}")
    assert (code, out) == (0, "all entries are valid\n")
    path = damage(filled, 6)
    code, out, err = run(capfd, "cache", "verify", f"--cache_dir={filled}")
    assert code == 1
    assert out == f"{path}: the stages do not run every operator exactly once\n"
    assert "1 entries are not valid and are ignored" in err


def test_verify_sees_what_is_not_an_entry(filled):
    directory = os.path.join(filled, DEVICE)
    signature = problem(4).signature
    good = os.path.join(directory, f"{signature}.json")
    shutil.copy(good, os.path.join(directory, f"{'0' * 64}.json"))
    shutil.copy(good, os.path.join(directory, f"{signature}.guess.json"))
    open(os.path.join(directory, f"{signature}.merge.json"), "w").close()
    old = os.path.join(directory, f"{signature}.json.123.tmp")
    new = os.path.join(directory, f"{signature}.json.456.tmp")
    for path in (old, new):
        open(path, "w").close()
    os.utime(old, (time.time() - 1e5,) * 2)
    found = {os.path.basename(e.path): e.problem for e in cache_admin.verify(filled)}
    assert len(found) == 4
    assert (
        found[f"{'0' * 64}.json"]
        == f"the file contains block {signature[:12]!r}, but its name has another one"
    )
    guess = f"{signature}.guess.json"
    assert found[guess].startswith(f"{guess!r} is not the name of an entry")
    broken = found[f"{signature}.merge.json"]
    assert broken.startswith("the file cannot be parsed as JSON")
    assert (
        found[os.path.basename(old)]
        == "a process that was killed left this temporary file"
    )


def test_prune_keeps_what_is_good(capfd, filled):
    bad = damage(filled, 6)
    answered = add_pending(filled, problem(4))
    waiting = add_pending(filled, problem(8))
    elsewhere = add_pending(filled, problem(4), device="another")
    code, out, _ = run(capfd, "cache", "prune", f"--cache_dir={filled}")
    assert code == 0
    assert sorted(out.splitlines()[:-1]) == sorted([bad, answered])
    assert not os.path.exists(bad) and not os.path.exists(answered)
    assert os.path.exists(waiting) and os.path.exists(elsewhere)
    run(capfd, "cache", "prune", "--other_devices", f"--cache_dir={filled}")
    assert os.path.exists(waiting) and not os.path.exists(elsewhere)


def test_prune_removes_nothing_of_others(capfd, filled, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    model = tmp_path / "model" / "variables"
    for directory in (elsewhere / "device", model):
        directory.mkdir(parents=True)
        for name in ("a.json", "notes.txt", f"{'0' * 64}.json"):
            (directory / name).write_text("precious")
    os.symlink(elsewhere / "device", os.path.join(filled, "device"))
    shutil.rmtree(os.path.join(filled, "pending"), ignore_errors=True)
    os.symlink(elsewhere, os.path.join(filled, "pending"))
    assert run(capfd, "cache", "prune", f"--cache_dir={filled}")[0] == 0
    assert len(os.listdir(elsewhere / "device")) == 3
    assert run(capfd, "cache", "prune", f"--cache_dir={model.parent}")[0] == 0
    assert sorted(os.listdir(model)) == ["a.json", "notes.txt"]
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "file")
    pipe = str(tmp_path / "pipe" / "file")
    code, _, err = run(capfd, "cache", "export", pipe, f"--cache_dir={filled}")
    assert code == 1 and "is not a regular file" in err


def test_export_and_import(capfd, filled, tmp_path):
    file, other = str(tmp_path / "packed.json"), str(tmp_path / "other")
    code, out, _ = run(capfd, "cache", "export", file, f"--cache_dir={filled}")
    assert (code, out) == (0, f"{file} contains 3 entries\n")
    code, out, _ = run(capfd, "cache", "import", file, f"--cache_dir={other}")
    assert (code, out) == (0, f"{other}: 3 entries new, 0 existed already\n")
    assert {e.name: e.data for e in cache_admin.entries(other)} == {
        e.name: e.data for e in cache_admin.entries(filled)
    }
    assert cache_admin.import_(other, file) == (0, 3)
    assert cache_admin.import_(other, file, overwrite=True) == (3, 0)
    assert pending.tune(other, **FAST).schedules[0][0] == problem(8)


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "[]",
        '{"version": 2, "entries": {}}',
        '{"version": 1}',
        '{"version": 1, "entries": {"../x.json": {}}}',
        '{"version": 1, "entries": {"cpu/../../x.json": {}}}',
        '{"version": 1, "entries": {"cpu/x.json": {}}}',
        '{"version": 1, "entries": {"pending/cpu/x.json": {"block": 1}}}',
    ],
)
def test_import_refuses_what_export_did_not_write(tmp_path, packed):
    file = tmp_path / "packed.json"
    file.write_text(packed)
    target = tmp_path / "target"
    with pytest.raises(UserError, match=str(file)):
        cache_admin.import_(str(target), str(file))
    assert not target.exists()


def test_import_writes_nothing_if_one_entry_is_bad(filled, tmp_path):
    file, target = str(tmp_path / "packed.json"), str(tmp_path / "target")
    cache_admin.export(filled, file)
    with open(file) as f:
        packed = json.load(f)
    next(iter(packed["entries"].values())).pop("stages")
    with open(file, "w") as f:
        json.dump(packed, f)
    with pytest.raises(UserError):
        cache_admin.import_(target, file)
    assert not os.path.exists(target)


def test_no_directory_is_one_line(capfd, tmp_path):
    missing = str(tmp_path / "missing")
    for action in (["list"], ["show", "a"], ["verify"], ["prune"], ["export", "x"]):
        code, _, err = run(capfd, "cache", *action, f"--cache_dir={missing}")
        assert code == 1
        assert err.strip().splitlines() == [
            f"ios_tf: error: {missing}: no such directory"
        ]
    code, _, err = run(capfd, "tune", f"--cache_dir={missing}")
    assert (code, err) == (1, f"ios_tf: error: {missing}: no such directory\n")
    assert not os.path.exists(missing)


def test_nothing_is_pending_where_nothing_was_kept_yet(capfd, tmp_path, monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "cache"))
    code, out, err = run(capfd, "tune")
    assert (code, err) == (0, "")
    assert "no blocks are pending" in out
    assert not os.path.exists(tmp_path / "cache")


def test_tune_from_the_command_line(capfd, cache):
    os.makedirs(cache)
    code, out, _ = run(capfd, "tune", f"--cache_dir={cache}")
    assert code == 0
    assert "no blocks are pending" in out
    add_pending(cache, problem(4))
    fast = [f"--{key}={value}" for key, value in FAST.items()]
    code, out, _ = run(capfd, "tune", f"--cache_dir={cache}", *fast)
    assert code == 0
    assert "branches of 4" in out
    code, _, err = run(capfd, "tune", f"--cache_dir={cache}", "--device=toaster")
    assert code == 2
    assert "toaster" in err


def test_a_cache_tune_cannot_write_keeps_the_block(capfd, cache):
    path = add_pending(cache, problem(4))
    open(os.path.join(cache, DEVICE), "w").close()
    fast = [f"--{key}={value}" for key, value in FAST.items()]
    code, _, err = run(capfd, "tune", f"--cache_dir={cache}", *fast)
    assert code == 1
    assert "1 schedules could not be written" in err
    assert os.path.exists(path)


def test_the_optimizer_writes_what_tune_reads(cache):
    # This test does not use ios_tf.tuning.on_the_fly; a server does not either.
    inputs = keras.Input((8, 8, 4))
    left = layers.Conv2D(4, 3)(inputs)
    right = layers.Conv2D(4, 3)(inputs)
    graph = gh.freeze(
        gh.randomised(keras.Model(inputs, layers.Conv2D(4, 1)(left) + right)),
        (None, 8, 8, 4),
    )
    parameters = {"mode": "optimize", "cache_dir": cache, "batch_size": 3}

    def regions_on_the_engine() -> int:
        optimized = gh.optimize(graph, ["IosOptimizer"], parameters)
        return sum(map(gh.runs_on_the_engine, optimized.graph_def.node))

    assert regions_on_the_engine() == 0
    (expected,) = gh.collect(graph, batch_size=3)["problems"]
    ((found, _),) = pending.tune(cache, **FAST).schedules
    assert found == Problem.from_json(expected)
    assert regions_on_the_engine() == 1


def test_clear_empties_a_cache_and_leaves_other_files(filled, capfd):
    foreign = os.path.join(filled, DEVICE, "notes.txt")
    with open(foreign, "w") as file:
        file.write("not an entry")
    assert (
        len(cache_admin.entries(filled)) == 4
    )  # notes.txt is listed as an invalid entry
    code, printed, _ = run(capfd, "cache", "clear", f"--cache_dir={filled}")
    assert code == 0
    assert printed.startswith("3 entries and ")
    assert [entry.path for entry in cache_admin.entries(filled)] == [foreign]
    assert os.path.getsize(os.path.join(filled, "latencies.txt")) == 0
    code, printed, _ = run(capfd, "cache", "clear", f"--cache_dir={filled}")
    assert (code, printed) == (0, "0 entries and 0 latencies removed\n")
