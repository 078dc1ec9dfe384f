"""`python -m benchmarks gpu_day` on the fake GPU: steps run, fail, or are left out."""

import argparse
import json
import os
import signal
import subprocess

import bench_helpers
import cuda_helpers
import pytest
from commands import run_python

from benchmarks import (
    checks,
    command_line,
    cudnn_plans,
    gpu_data,
    gpu_day,
)
from benchmarks.network import Network
from ios_tf.native import engine
from ios_tf.scheduler import sequential_schedule

pytestmark = pytest.mark.one_core

_NETWORKS = (*gpu_data.NETWORKS, *gpu_data.LARGE_NETWORKS)
_CACHES = ("IOS_TF_PLAN_CACHE", "IOS_TF_CODE_CACHE")


@pytest.fixture
def environment(tmp_path):
    """The environment of processes that use the fake GPU."""
    fakes = cuda_helpers.build_fakes()
    return {
        **{name: value for name, value in os.environ.items() if name not in _CACHES},
        "LD_PRELOAD": str(fakes / "libcuda.so.1"),
        "IOS_TF_CUDA_LIBRARIES": str(fakes),
        "IOS_TF_CACHE": str(tmp_path / "cache"),
    }


def rehearse(directory, environment, *words):
    """Runs the command with a tiny network. Returns its record and finished process."""
    network = directory / "tiny.json"
    bench_helpers.tiny_network().write(network)
    done = subprocess.run(
        command_line("gpu_day", network, *words) + [f"--output={directory / 'day'}"],
        env=environment,
        capture_output=True,
        text=True,
    )
    record = json.loads((directory / "day" / "gpu_day.json").read_text())
    return record, done


def options_of(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    gpu_day.add_arguments(parser)
    return parser.parse_args(words)


def test_steps(environment, tmp_path):
    convolution = {"type": "conv2d", "kernel": [3, 3], "filters": 8, "padding": "SAME"}
    convolutions = tmp_path / "convolutions.json"
    one = {"inputs": [[1, 5, 6, 4]], "operator": convolution}
    kinds = {"tf32": [one], "half": [one]}
    convolutions.write_text(json.dumps({"tiny": kinds}))
    record, done = rehearse(
        tmp_path,
        environment,
        "--steps=library,plans,schedules_float16,streams",
        f"--convolutions={convolutions}",
        "--minutes=20",
    )
    outcomes = {one["step"]: one["outcome"] for one in record["steps"]}
    assert outcomes == {
        "library": "passed",
        "schedules_float16": "passed",
        "streams": "passed",
        "plans": "passed",
    }, record
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[-4:]] == list(outcomes)
    for cache in _CACHES:  # all steps share them
        assert any((tmp_path / "day" / cache.lower()).iterdir())
    plans = json.loads((tmp_path / "day" / "plans.json").read_text())["plans"]
    assert sorted(plans) == [
        f"tiny {t} {b}" for t in ("float16", "float32") for b in (1, 32)
    ]
    assert all(len(found) == 1 for found in plans.values())
    said = (tmp_path / "day" / "streams.log").read_text().splitlines()
    assert said[-1] == "3200 calls: 0 outputs differ, 0 CUDA graphs could not be made"
    assert (tmp_path / "day" / "float16" / "schedules.json").exists()
    said = (tmp_path / "day" / "plans.log").read_text().splitlines()
    assert said[-1] == "there is no recording of 'Fake GPU' to compare with"


def test_three_latencies_of_a_network_are_compared(tmp_path, monkeypatch, capsys):
    """The profiler's latency is 25 % above the sum of stages in one of two rows."""
    day = tmp_path / "float16"
    day.mkdir()
    latency = {"sum_of_stages_ms": 0.4, "median_ms": 0.5}
    schedules = {"sequential": latency, "auto": {**latency, "median_ms": 0.4}}
    peers = {"ios": {"median_ms": 0.41}, "ios_sequential": {"median_ms": 0.45}}
    for name, rows in {"schedules": schedules, "frameworks": peers}.items():
        results = {"networks": {"net": rows, f"only in {name}": rows}}
        (day / f"{name}.json").write_text(json.dumps({"results": results}))
    for cache in _CACHES:
        monkeypatch.setenv(cache, "")
    monkeypatch.setattr(gpu_day, "steps", lambda options: [])
    assert gpu_day.run(options_of(f"--output={tmp_path}")) == 1
    *_, first, second, verdict = capsys.readouterr().out.splitlines()
    assert [line.split() for line in (first, second)] == [
        ["net,", "float16", "sequential", "0.400", "0.500", "0.450", "25%"],
        ["net,", "float16", "auto", "0.400", "0.400", "0.410", "2%"],
    ]
    assert verdict == "The latencies of 1 of 2 rows are more than 5% apart."


def test_a_day_goes_on_after_failures_and_ends_in_time(environment, tmp_path):
    """The command continues after failed steps, and leaves steps out if time is short.

    Without a driver, every step fails. In three seconds, there is no time to run
    the first step.
    """
    without = {k: v for k, v in environment.items() if k != "LD_PRELOAD"}
    words = ["--steps=library,schedules_float32,memcheck,plans"]
    record, done = rehearse(tmp_path, without, *words)
    outcomes = [one["outcome"] for one in record["steps"]]
    assert outcomes == ["failed", "failed", "left out", "failed"]
    assert all(one["last_line"] for one in record["steps"])
    record, done = rehearse(
        tmp_path, environment, "--steps=library,schedules_float32", "--minutes=0.05"
    )
    assert record["steps"][0]["outcome"] == "left out"  # it has less than a second
    assert done.returncode == 1


def step(name: str, share: float, missing: str = "", command=()) -> gpu_day.Step:
    return gpu_day.Step(name, command, share, missing)


def test_time_that_steps_do_not_need_goes_to_later_steps():
    steps = [step("a", 0.2), step("b", 0.2, "c is missing"), step("c", 0.3)]
    assert gpu_day._limit(steps, 100, 100) == pytest.approx(40)  # 0.2 of 0.5
    assert gpu_day._limit(steps, 100, 45) == pytest.approx(20)  # its share
    assert gpu_day._limit(steps, 100, 5) == 5
    assert gpu_day._limit(steps[1:], 100, 90) == pytest.approx(60)
    assert gpu_day._limit(steps[2:], 100, 90) == 90  # nothing else needs the time


def test_torch_compile_does_not_delay_other_peers(tmp_path):
    """torch.compile may take minutes, and results are written with the last peer."""
    every = gpu_day.steps(options_of(f"--output={tmp_path}"))
    peers = [
        (step.name, word)
        for step in every
        for word in step.command
        if word.startswith("--peers=")
    ]
    assert [name for name, word in peers if "torch_compile" in word] == [every[-1].name]
    assert [name for name, _ in peers] == [
        "frameworks_float16",
        "frameworks_float32",
        "frameworks_large",
        "torch_compile",
    ]


def test_a_second_command_keeps_the_outcomes_of_other_steps(tmp_path, monkeypatch):
    every = [step(name, 0.5, command=["true"]) for name in ("first", "second")]
    for cache in _CACHES:
        monkeypatch.setenv(cache, "")
    monkeypatch.setattr(gpu_day, "steps", lambda options: every)
    for name in ("first", "second", "second"):
        options = options_of(f"--output={tmp_path}", f"--steps={name}")
        options.command = ""
        assert gpu_day.run(options) == 0
    record = json.loads((tmp_path / "gpu_day.json").read_text())
    assert [one["step"] for one in record["steps"]] == ["first", "second"]


def test_no_step_overwrites_another_s_results(tmp_path):
    every = gpu_day.steps(options_of(f"--output={tmp_path}"))
    results = [
        (step.command[3], word)
        for step in every
        for word in step.command
        if word.startswith(("--output=", "--json="))
    ]
    assert len({*results}) == len(results) > 10


def test_named_networks_are_all_measured_in_the_first_steps(tmp_path):
    every = gpu_day.steps(options_of("a.json", "b.json", f"--output={tmp_path}"))
    names = [step.name for step in every]
    assert "schedules_large" not in names
    by_name = dict(zip(names, every, strict=True))
    assert {"a.json", "b.json"} < {*by_name["schedules_float16"].command}
    assert "b.json" in by_name["memcheck"].command
    assert "a.json" not in by_name["memcheck"].command


def test_sigterm_ends_the_running_step(tmp_path):
    """The step asks gpu_day to end, and then never ends on its own.

    The results of the step before it are on disk.
    """
    program = """
import sys
from benchmarks import gpu_day
from benchmarks.__main__ import main
endless = "echo $$ > $0; kill -TERM $PPID; while :; do read line < $1; done"
gpu_day.steps = lambda options: [
    gpu_day.Step("first", ["echo", "done"], 0.5),
    gpu_day.Step("endless", ["sh", "-c", endless, *sys.argv[2:]], 0.5),
]
main(["gpu_day", "--output=" + sys.argv[1]])
"""
    os.mkfifo(tmp_path / "pipe")
    files = [str(tmp_path / name) for name in ("day", "number", "pipe")]
    done = run_python("-c", program, *files, status=128 + signal.SIGTERM)
    assert done.stdout.startswith("first: passed after 0 s of 750 s: done\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "number").read_text()), 0)
    (first,) = json.loads((tmp_path / "day" / "gpu_day.json").read_text())["steps"]
    assert first["outcome"] == "passed"


def test_plans_are_compared_with_recordings():
    recorded = {"answers": {"net float32 1": [{"timed": "eng10*2 eng41*3"}] * 3}}
    found = {"net float32 1": ["eng41_k1=2", "eng7_k2=1", ""], "other float32 1": ["x"]}
    assert cudnn_plans.compare(found, recorded) == {"net float32 1": [1, 2]}


def test_expectations_are_of_the_gpu_at_hand():
    """A GPU without a recording is not compared with the recording of another GPU."""
    expected = {
        "NVIDIA H200": "h200",
        "NVIDIA A100-SXM4-80GB": "a100",
        "NVIDIA A100 80GB PCIe": "a100",
        "NVIDIA L4": "l4",
        "NVIDIA L40S": None,
        "NVIDIA H100 80GB HBM3": None,
        "NVIDIA GH200 480GB": None,
    }
    for device, name in expected.items():
        found = gpu_data.recording(gpu_data.RECORDINGS, device)
        assert (found and found.stem) == name


def test_networks_are_in_the_package():
    """gpu_data has the paper's networks, for images of the original sizes.

    The smallest one has 50 operators.
    """
    networks = {path: Network.read(path) for path in _NETWORKS}
    counts = {
        path: sum(len(region.block["operators"]) for region in network.regions)
        for path, network in networks.items()
    }
    assert min(counts.values()) == counts[gpu_data.SMALLEST] == 50
    shapes = [network.regions[0].block["inputs"][0] for network in networks.values()]
    assert [shape[1] for shape in shapes] == [299, 224, 224, 331]


def test_all_merges_of_networks_of_the_package():
    """`checks` runs schedules with all possible merges, even of 484 operators."""
    for network in map(Network.read, _NETWORKS):
        for problem in network.problems.values():
            schedule = checks.without_measuring(problem, "merge")
            engine.check_schedule(problem.block, schedule.to_json())
            sequential = sequential_schedule(problem)
            assert len(schedule.stages) <= len(sequential.stages)


def test_nothing_has_to_be_named(tmp_path):
    """By default, each step uses networks and files that exist, in any directory."""
    every = gpu_day.steps(options_of(f"--output={tmp_path}"))
    named = [
        word.partition("=")[2] or word
        for step in every
        for word in step.command
        if "gpu_data" in word
    ]
    assert {*_NETWORKS, gpu_data.CONVOLUTIONS, gpu_data.RECORDINGS} == {*named}
    assert all(os.path.exists(path) for path in named)


def test_unknown_steps_are_one_line(environment, tmp_path):
    options = options_of(f"--output={tmp_path}", "--steps=lunch")
    message = "there is no step 'lunch'. The steps are library, operators"
    with pytest.raises(gpu_day.UserError, match=message):
        gpu_day.run(options)
