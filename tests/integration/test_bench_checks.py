"""Exported networks, and checks of them, without TensorFlow."""

import dataclasses
import json
from pathlib import Path

import bench_helpers
import numpy as np
import pytest
import shared
from commands import run_python

from benchmarks import checks as bench
from benchmarks.__main__ import main
from benchmarks.export_blocks import network_of
from benchmarks.network import Network
from ios_tf import UserError
from ios_tf.differences import relative_difference, relative_norm
from ios_tf.native import engine
from ios_tf.scheduler import Problem, sequential_schedule

# TensorFlow and modules of packages that it requires, or that ios_tf requires beside it
# and numpy. A machine with a GPU may have none of them.
_TENSORFLOW_PACKAGES = [
    "absl",
    "fastjsonschema",
    "google",
    "h5py",
    "keras",
    "ml_dtypes",
    "rich",
    "tensorflow",
    "wrapt",
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("network") / "network.json")
    network_of(shared.cells(), batch_size=2).write(path)
    return path


def test_an_exported_network_holds_the_whole_model(exported):
    network = Network.read(exported)
    assert [shape[0] for shape in network.regions[0].block["inputs"]] == [2]
    for region in network.regions:
        numbers = sorted(op for part in region.parts for op in part.operators)
        assert numbers == list(range(len(region.block["operators"])))
        schedule = region.schedule(
            {s: sequential_schedule(p) for s, p in network.problems.items()}
        )
        problem = Problem.from_json(engine.problem(region.block))
        schedule = dataclasses.replace(schedule, signature=problem.signature)
        engine.check_schedule(problem.block, schedule.to_json())
        for part in region.parts:
            of_part = network.problems[part.signature]
            assert [of_part.operator_keys[i] for i in range(len(of_part))] == [
                problem.operator_keys[op] for op in part.operators
            ]


def test_the_engine_is_measured_without_tensorflow(tmp_path):
    network = bench_helpers.tiny_network()
    network.write(tmp_path / "tiny.json")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({_TENSORFLOW_PACKAGES}))\n"
        "from benchmarks import checks, cudnn_plans, gpu_day, streams\n"
        "from benchmarks.__main__ import main\n"
        "sys.exit(main(['schedules', *sys.argv[1:]]))"
    )
    options = ["--quick", f"--output={tmp_path}", str(tmp_path / "tiny.json")]
    run_python("-c", code, *options)
    result = json.loads((tmp_path / "schedules.json").read_text())
    (rows,) = result["results"]["networks"].values()
    operators = sum(len(region.block["operators"]) for region in network.regions)
    assert rows["sequential"]["stages"] == operators > rows["greedy"]["stages"]
    assert result["device"] == engine.device_fingerprint("cpu")


def test_an_operator_that_fails_is_a_check_that_fails(monkeypatch, capsys):
    class Program(engine.Program):
        def __init__(self, block, schedule, weights, device=None):
            # Programs without a device compute the size of random weights.
            if device and block["operators"][0]["type"] == "pool":
                raise engine.EngineError("no memory")
            super().__init__(block, schedule, weights, device or "cpu")

    monkeypatch.setattr(engine, "Program", Program)
    checks = bench.check_nan("cpu", "float32")
    failed = [check.what for check in checks if not check.passed]
    assert failed == [check.what for check in checks if " pool " in check.what] != []
    assert "the engine cannot run a block: no memory" in capsys.readouterr().out


def test_checks_against_float64(exported):
    pytest.importorskip("torch", reason="PyTorch, the float64 reference, is missing")
    checks = bench.check_operators("cpu", "float32")
    checks += bench.check_network(Network.read(exported), "cpu", "float32")
    assert [check for check in checks if not check.passed] == []


def _layers(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """Layers that round float32 operands to 11 bits, as TF32 does; float64 is exact."""
    for w in weights:
        if x.dtype == np.float32:
            x, w = _to_11_bits(x), _to_11_bits(w.astype(np.float32))
        x = np.maximum(x @ w, 0)
    return x


def _to_11_bits(x: np.ndarray) -> np.ndarray:
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 2**11) / 2**11, exponent).astype(np.float32)


def test_a_deep_network_may_round_and_not_be_wrong():
    """100 layers rounded to TF32 pass. They fail with one wrong value, or with a small
    error in all values."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (64, 64))
    weights = [random.normal(size=(64, 64)) / 32**0.5 for _ in range(100)]
    expected = _layers(x, weights)
    found = _layers(x.astype(np.float32), weights)

    def check(found: np.ndarray) -> bench.Check:
        largest = relative_difference(found, expected)
        norm = relative_norm(found, expected)
        return bench.Check("layers", "float32", largest, norm, 1e-2)

    assert check(found).passed
    assert check(found).difference > 3e-3  # more than a single operator may differ by
    assert not check(found * 1.02).passed
    found[3, 5] += 0.1 * expected.max()
    assert not check(found).passed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read"),
        ("[" * 200_000 + "]" * 200_000, "cannot be read: .*nested deeper than"),
        ('{"version": ' + "9" * 9000 + "}", "cannot be read: .*does not fit"),
        ('{"version": 7}', "not a network of version 1"),
        (
            '{"version": 1, "name": "x", "blocks": [{}], "regions": []}',
            "not a valid network",
        ),
    ],
)
def test_broken_networks_are_refused(text, message, tmp_path):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        Network.read(path)


def test_errors_are_one_line(capsys):
    assert main(["checks", "/nowhere.json"]) == 1
    assert capsys.readouterr().err.startswith("error: /nowhere.json: cannot be read")


def test_an_unwritable_file_is_refused(tmp_path):
    network = Network("none", {}, [])
    with pytest.raises(UserError, match="cannot be written"):
        network.write(tmp_path / "missing" / "network.json")
    assert list(Path(tmp_path).iterdir()) == []


def test_checks_are_kept_as_they_come(monkeypatch, tmp_path, capsys):
    """Checks stay in the file if a later check fails or the time is over."""
    path = tmp_path / "checks.json"

    def operators(device: str, dtype: str) -> list[bench.Check]:
        if dtype == "bfloat16":
            assert len(json.loads(path.read_text())["checks"]) == 2
            raise engine.EngineError("the device is gone")
        norm = {"float32": 0.0, "float16": 1.0}[dtype]
        return [bench.Check("one", dtype, 0.0, norm, 1e-2)]

    monkeypatch.setattr(bench, "check_operators", operators)
    monkeypatch.setattr(bench, "check_nan", lambda device, dtype: [])
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: name)
    words = ["checks", "--dtypes=float32,float16,bfloat16", f"--json={path}"]
    assert main(words) == 1
    captured = capsys.readouterr()
    assert captured.err == "error: the device is gone\n"
    assert "FAILED one (float16): the norm of the differences is 1" in captured.out
    kept = json.loads(path.read_text())
    assert kept["device"] == engine.device_fingerprint("cpu")
    assert [check["dtype"] for check in kept["checks"]] == ["float32", "float16"]
