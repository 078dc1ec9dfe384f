"""Arguments of public functions: accepted values, and error messages for others."""

import pathlib
import sys

import numpy as np
import pytest

from benchmarks.__main__ import main as benchmark
from ios_tf import validation
from ios_tf.cli.main import main
from ios_tf.cost.cost_model import Measurement
from ios_tf.errors import UserError
from ios_tf.scheduler import Pruning


@pytest.mark.parametrize("value", [1, 7, 2**31 - 1, np.int64(7), np.uint8(7)])
def test_whole_numbers(value):
    assert validation.whole("n", value) == int(value)
    assert type(validation.whole("n", value)) is int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "n must be a whole number >= 1, not 0"),
        (2**70, f"n must be a whole number <= 2147483647, not {2**70}"),
        (True, "n must be a whole number >= 1, not True"),
        ("4", "n must be a whole number >= 1, not '4'"),
        (4.0, "n must be a whole number >= 1, not 4.0"),
        (None, "n must be a whole number >= 1, not None"),
        (np.ones(3, int), "n must be a whole number"),
        (10**100, f"not {'1' + 39 * '0'}…"),
    ],
)
def test_no_whole_numbers(value, message):
    with pytest.raises(UserError) as error:
        validation.whole("n", value)
    assert message in str(error.value)


def test_seconds():
    for value in (0, 2.5, float("inf"), np.float32(2.5)):
        assert validation.seconds("t", value) == value
    for value in (-1, float("nan"), "5", None, True, [5], 10**400):
        with pytest.raises(UserError, match="t must be at least 0 seconds"):
            validation.seconds("t", value)


def test_strings():
    for value, expected in (
        ("name", ["name"]),
        (["a", "b"], ["a", "b"]),
        (("a",), ["a"]),
        ((), []),
    ):
        assert validation.strings("names", value) == expected
    for value in (5, None, b"name", [b"a"], {"a": 1}, ["a", 5]):
        with pytest.raises(
            UserError, match="names must be a string or a list of strings"
        ):
            validation.strings("names", value)


@pytest.mark.parametrize(
    "text", ["cpu", "gpu", "gpu:0", "gpu:12", "gpu,tf32=off", "gpu:1,tf32=off"]
)
def test_devices_of_the_engine(text):
    assert validation.engine_device("device", text) == text


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (main, ["tune"]),
        (main, ["cache", "prune"]),
        (benchmark, ["schedules"]),
        (benchmark, ["gpu_day"]),
        (benchmark, ["checks"]),
        (benchmark, ["cudnn_plans"]),
    ],
)
@pytest.mark.parametrize(
    "device", ["", "tpu", "cuda:1", "gpu:", "gpu:x", "gpu:²", "gpu:1,tf32=on"]
)
def test_no_device_of_the_engine(command, arguments, device, capsys):
    with pytest.raises(SystemExit) as end:
        sys.exit(command([*arguments, f"--device={device}"]))
    assert end.value.code == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "rror: " in line]
    assert len(errors) == 1
    message = "device must be cpu, gpu, gpu:1 … or gpu:1,tf32=off …, not "
    assert f"argument --device: {message}{device!r}" in errors[0]


def test_paths():
    for value in ("a/b", b"a/b", pathlib.Path("a/b")):
        assert validation.path("p", value) == "a/b"
    for value in ("", "a\0b", 7, None):
        with pytest.raises(UserError, match="p must be a path"):
            validation.path("p", value)
    for value in (b"\xff", "\udcff"):
        with pytest.raises(UserError, match="p must be UTF-8"):
            validation.path("p", value)


def test_limits_and_measurements():
    assert Pruning(np.int32(2), None).max_group_size == 2
    assert Measurement(runs=np.int32(2)).runs == 2
    for make in (
        lambda: Pruning(max_groups=-1),
        lambda: Pruning(max_group_size=1.5),
        lambda: Measurement(warmup_runs=-1),
        lambda: Measurement(runs=0),
        lambda: Measurement(sample_count=10**9),
    ):
        with pytest.raises(UserError, match="whole number"):
            make()
