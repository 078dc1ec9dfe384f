"""The day a GPU comes, rehearsed on the fake: steps run, fail, are left out and end."""

import json
import os
import subprocess
import sys

import bench_helpers
import cuda_helpers
import pytest

from ios_tf.bench import cudnn_plans, gpu_day

pytestmark = pytest.mark.one_core


@pytest.fixture
def environment(tmp_path):
    """Of processes that have a fake GPU."""
    fakes = cuda_helpers.build_fakes()
    return {
        **os.environ,
        "LD_PRELOAD": str(fakes / "libcuda.so.1"),
        "IOS_TF_CUDA_LIBRARIES": str(fakes),
        "IOS_TF_CACHE": str(tmp_path / "cache"),
    }


def rehearse(directory, environment, *words):
    """The record of a day with a tiny network, and the exit code."""
    network = directory / "tiny.json"
    bench_helpers.tiny_network().write(network)
    done = subprocess.run(
        [sys.executable, "-m", "ios_tf.bench", "gpu_day", network, *words]
        + [f"--output={directory / 'day'}"],
        env=environment,
        capture_output=True,
        text=True,
    )
    record = json.loads((directory / "day" / "gpu_day.json").read_text())
    return record, done


def test_steps(environment, tmp_path):
    convolution = {"type": "conv2d", "kernel": [3, 3], "filters": 8, "padding": "SAME"}
    convolutions = tmp_path / "convolutions.json"
    one = {"inputs": [[1, 5, 6, 4]], "operator": convolution}
    convolutions.write_text(json.dumps({"tiny": [one]}))
    record, done = rehearse(
        tmp_path,
        environment,
        "--steps=library,plans,schedules",
        f"--convolutions={convolutions}",
        "--minutes=20",
    )
    outcomes = {one["step"]: one["outcome"] for one in record["steps"]}
    assert outcomes == {
        "library": "passed",
        "plans": "passed",
        "schedules": "passed",
    }, record
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[0] for line in lines[-3:]] == list(outcomes)
    plans = json.loads((tmp_path / "day" / "plans.json").read_text())["plans"]
    assert sorted(plans) == [
        f"tiny {t} {b}" for t in ("float16", "float32") for b in (1, 32)
    ]
    assert all(len(found) == 1 for found in plans.values())
    assert (tmp_path / "day" / "schedules.json").exists()


def test_a_day_goes_on_after_failures_and_ends_in_time(environment, tmp_path):
    """Without a driver every step fails; with a thousandth of a minute none is over."""
    without = {k: v for k, v in environment.items() if k != "LD_PRELOAD"}
    words = ["--steps=library,plans,schedules", f"--convolutions={tmp_path}/none"]
    record, done = rehearse(tmp_path, without, *words)
    outcomes = [one["outcome"] for one in record["steps"]]
    assert outcomes == ["failed", "left out", "failed"]
    assert all(one["last_line"] for one in record["steps"])
    record, done = rehearse(
        tmp_path, environment, "--steps=library,schedules", "--minutes=0.1"
    )
    assert record["steps"][0]["outcome"] == "left out"  # its share is no second
    assert done.returncode == 1


def test_plans_are_compared_with_recordings():
    recorded = {"answers": {"net float32 1": [{"timed": "eng10*2 eng41*3"}] * 3}}
    found = {"net float32 1": ["eng41_k1=2", "eng7_k2=1", ""], "other float32 1": ["x"]}
    assert cudnn_plans.compare(found, recorded) == {"net float32 1": [1, 2]}


def test_unknown_steps_are_one_line(environment, tmp_path):
    parser = gpu_day.argparse.ArgumentParser()
    gpu_day.add_arguments(parser)
    options = parser.parse_args([f"--output={tmp_path}", "--steps=lunch"])
    with pytest.raises(gpu_day.UserError, match="no step 'lunch': library, plans"):
        gpu_day.run(options)
