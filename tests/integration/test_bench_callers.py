"""`ios_tf bench --callers` measures installed frameworks and names the others."""

import dataclasses
import json

import numpy as np
import pytest
import shared
import tensorflow as tf
from commands import run

from ios_tf.callers import forms
from ios_tf.callers.bench import bench
from ios_tf.callers.frameworks import FRAMEWORKS, IosSession, Model
from ios_tf.callers.result import Result, Row
from ios_tf.callers.worker import Worker
from ios_tf.errors import UserError
from ios_tf.native import plugin
from ios_tf.options import BenchOptions
from ios_tf.processes import ChildError
from ios_tf.reasons import Reason

pytestmark = pytest.mark.usefixtures("prepared")
FIGURES = {"images_per_second", "p50_ms", "p90_ms", "p99_ms", "cpu_ms"}
CONDITIONS = {
    "command",
    "date",
    "model",
    "signature",
    "device",
    "batch_size",
    "tensorflow",
    "python",
    "callers",
    "rate",
    "batching",
    "seconds",
    "rows",
    "missing",
    "failures",
    "decisions",
    "notes",
}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path_factory.mktemp("cache")))


def save(directory, shape, function) -> str:
    """A SavedModel with the input `x`, without convolutions."""
    signature = tf.function(
        lambda x: {"y": function(x)}, input_signature=[tf.TensorSpec(shape, name="x")]
    )
    tf.saved_model.save(tf.Module(), str(directory), signatures=signature)
    return str(directory)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return save(tmp_path_factory.mktemp("tiny"), [None, 4], lambda x: 2 * x + 1)


def installed() -> list[str]:
    return [one.name for one in FRAMEWORKS.values() if not one.missing()]


def check_schema(result: dict, rounds: int) -> None:
    assert result.keys() == CONDITIONS
    for row in result["rows"]:
        assert set(row) == FIGURES | {
            "name",
            "versions",
            "difference",
            "callers",
            "calls",
            "unanswered",
            "rounds",
        }
        assert row["difference"] < 1e-4
        assert row["calls"] >= rounds * (result["rate"] is None) * row["callers"]
        assert len(row["rounds"]) == rounds
        for figures in row["rounds"]:
            assert figures.keys() == FIGURES
            assert 0 < figures["p50_ms"] <= figures["p90_ms"] <= figures["p99_ms"]
        for figure in FIGURES:
            values = [figures[figure] for figures in row["rounds"]]
            assert row[figure]["median"] == pytest.approx(np.median(values))
            assert min(values) <= row[figure]["low"] <= row[figure]["median"]
            assert row[figure]["median"] <= row[figure]["high"] <= max(values)


def test_all_frameworks():
    measured = bench(
        shared.branches(),
        BenchOptions(
            callers=(1, 2), rounds=2, seconds=0.02, batching=True, device="cpu"
        ),
    )
    result = json.loads(json.dumps({**measured.to_json(), "notes": measured.notes()}))
    check_schema(result, 2)
    names = [(row["callers"], row["name"]) for row in result["rows"]]
    assert names == [(n, name) for n in (1, 2) for name in installed()]
    assert len({*result["missing"], *installed()}) == len(FRAMEWORKS)
    assert result["failures"] == {}
    assert (result["callers"], result["batch_size"]) == ([1, 2], 1)
    table = measured.table().splitlines()
    assert max(map(len, table)) <= 80
    for line, (callers, name) in zip(table[1:], names, strict=True):
        assert line.startswith(name)
        assert line.removeprefix(name).split()[0] == str(callers)


def test_open_loop_without_peers(capfd, monkeypatch, tiny):
    absent = {"no_such_module": "no-such-package"}
    for key in ("openvino", "litert"):
        changed = dataclasses.replace(FRAMEWORKS[key], packages=absent)
        monkeypatch.setitem(FRAMEWORKS, key, changed)

    def fail(*arguments, **options):
        raise UserError("this cannot be exported")

    present = {"json": "json"}
    changed = dataclasses.replace(FRAMEWORKS["onnxruntime"], packages=present)
    monkeypatch.setitem(FRAMEWORKS, "onnxruntime", changed)
    monkeypatch.setattr(forms, "export_onnx", fail)
    flags = "--callers=2 --rate=1000 --rounds=2 --seconds=0.02 --batch_size=3"
    words = ["bench", tiny, "--device=cpu", *flags.split()]
    code, out, err = run(capfd, *words, "--json")
    assert code == 0, err
    result = json.loads(out)
    check_schema(result, 2)
    names = ["TensorFlow", "IOS-TF", "IOS-TF, direct"]
    assert [row["name"] for row in result["rows"]] == names
    for row in result["rows"]:
        assert row["calls"] + row["unanswered"] == 2 * 20
    assert (result["batch_size"], result["rate"]) == (3, 1000)
    assert result["notes"][:2] == [
        "frameworks that are not installed were not measured: OpenVINO and LiteRT "
        f"(pip install no-such-package) [{Reason.FRAMEWORK_MISSING.code}]",
        "ONNX Runtime was not measured: this cannot be exported "
        f"[{Reason.FRAMEWORK_FAILED.code}]",
    ]
    codes = [one["code"] for one in result["decisions"]]
    assert codes == [Reason.FRAMEWORK_MISSING.code, Reason.FRAMEWORK_FAILED.code]
    assert result["failures"] == {"ONNX Runtime": "this cannot be exported"}


def test_batches_run_on_the_engine(tmp_path):
    path = shared.converted_cells()
    function = tf.saved_model.load(path).signatures["serving_default"]
    ((name, _),) = function.structured_input_signature[1].items()
    images = np.random.default_rng(0).random([2, 17, 17, 3], np.float32)
    np.savez(tmp_path / "inputs.npz", **{name: images})
    (output,) = function.structured_outputs
    model = Model(
        path, str(tmp_path / "inputs.npz"), [output], "serving_default", None, 2, True
    )
    session = IosSession(model)
    packings = plugin.runtime().ios_tf_packings()
    outputs = session.callers(3)[0].outputs()
    assert plugin.runtime().ios_tf_packings() > packings
    expected = function(**{name: tf.constant(images)})[output].numpy()
    assert np.abs(outputs[output] - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--callers=0", "argument --callers: callers must be a whole number >= 1"),
        ("--callers=1,-2", "argument --callers: callers must be a whole number >= 1"),
        ("--callers=5000", "callers must be a whole number <= 1024, not 5000"),
        ("--callers=2,2", "callers lists 2 more than once"),
        ("--callers=2 --rate=-1", "rate must be above 0 and at most 100000, not -1"),
        ("--callers=2 --rate=nan", "rate must be above 0"),
        ("--callers=2 --rate=fast", "rate must be above 0"),
        ("--callers=2 --seconds=0", "seconds must be above 0 and at most 600"),
        ("--callers=1,2 --rate=9", "rate needs a single number of callers, not"),
        ("--rate=9", "rate needs a number of callers, such as --callers=8"),
        ("--batching", "batching needs a number of callers, such as --callers=8"),
        ("--callers=2 --strategies=greedy", "--strategies cannot be used with"),
        (
            "--callers=2 --input=x=5,4 --batch_size=8",
            "the inputs have 5 images each, but --batch_size is 8",
        ),
    ],
)
def test_wrong_arguments(capfd, tiny, flags, message):
    code, _, err = run(capfd, "bench", tiny, "--device=cpu", *flags.split())
    assert code in (1, 2)
    (line,) = err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("shape", "function", "message"),
    [
        ([2, 4], tf.abs, "input 'x' of signature 'serving_default' has the shape"),
        ([None, 4], tf.reduce_sum, "output 'y' of signature 'serving_default' has"),
    ],
)
def test_batching_of_a_fixed_batch(capfd, tmp_path, shape, function, message):
    model = save(tmp_path, shape, function)
    flags = "--callers=2 --batching --device=cpu"
    code, _, err = run(capfd, "bench", model, *flags.split())
    assert code == 1
    (line,) = err.splitlines()
    assert "--batching needs a variable batch size (None), but " + message in line


def test_a_framework_that_cannot_load_the_model(tmp_path):
    pytest.importorskip("onnxruntime")
    np.savez(tmp_path / "inputs.npz", x=np.ones(1))
    model = Model("/no/such.onnx", str(tmp_path / "inputs.npz"), [], "s", None, 1)
    with pytest.raises(ChildError, match=r"/no/such\.onnx"):
        Worker("onnxruntime", model)


def result_with(rows, **changes) -> Result:
    fields = {"differences": {}, "missing": {}, "failures": {}} | changes
    return Result(
        model="m",
        signature="s",
        device="d",
        batch_size=1,
        options=BenchOptions(callers=[1, 1024]),
        rows=rows,
        **fields,
    )


def row(framework="ios_batching", callers=1, unanswered=0, **figures) -> Row:
    figures = dict.fromkeys(FIGURES, 1.0) | figures
    return Row(framework, callers, 100, unanswered, [figures])


def test_medians_of_rounds():
    rounds = [dict.fromkeys(FIGURES, value) for value in (5.0, 1.0, 4.0, 2.0, 3.0)]
    medians = Row("ios", 1, 5, 0, rounds).medians()
    assert medians["p99_ms"] == pytest.approx({"median": 3, "low": 1.4, "high": 4.6})
    table = result_with([Row("ios", 1, 5, 0, rounds)]).table()
    assert table.splitlines()[1].split()[:4] == ["IOS-TF", "1", "3.00", "53"]


def test_wide_numbers_fit_into_80_columns():
    large = dict.fromkeys(FIGURES, 98765.4)
    rows = [row(key, 1024, **large) for key in FRAMEWORKS]
    assert max(map(len, result_with(rows).table().splitlines())) <= 80


def test_notes():
    rows = [row("ios"), row("litert", unanswered=25)]
    differences = {"ios": 1e-3, "litert": 0.5, "openvino": float("nan")}
    assert result_with(rows, differences=differences).notes() == [
        "LiteRT's outputs differ from TensorFlow's by 5.0e-01 (relative)",
        "OpenVINO's outputs differ from TensorFlow's by nan (relative)",
        "LiteRT left 25 of 125 calls unanswered, because the rate is higher than this "
        "framework can serve",
    ]
    assert result_with(rows).notes()[-1].startswith("LiteRT left 25")
