"""The JSON document of a conversion: complete, valid, and stored in the result."""

import json
import math
import os
import re
from pathlib import Path

import foreign_models as fm
import jsonschema
import keras
import numpy as np
import pytest
import shared
import tensorflow as tf
from commands import run
from keras import layers

import ios_tf
from ios_tf import doctor
from ios_tf.cli.main import main
from ios_tf.errors import UserError
from ios_tf.reasons import Reason
from ios_tf.report import document

pytestmark = pytest.mark.usefixtures("cache")


def stored(directory: str) -> dict:
    """The report in a model, checked by another validator than the package's."""
    with open(os.path.join(directory, "assets.extra", "ios_tf_report.json")) as file:
        found = json.load(file)
    jsonschema.Draft202012Validator.check_schema(document.schema())
    jsonschema.Draft202012Validator(document.schema()).validate(found)
    return found


def check_network(network: dict) -> None:
    """Each operator is in one block, and in one stage of it."""
    operators = network["operators"]
    blocks = [block for region in network["regions"] for block in region["blocks"]]
    every = [op for block in blocks for op in block["operators"]]
    assert sorted(every) == list(range(len(operators)))
    for block in blocks:
        staged = [op for s in block["stages"] for group in s["groups"] for op in group]
        assert sorted(staged) == sorted(block["operators"])
        total = sum(stage["ms"] for stage in block["stages"])
        assert block["scheduled_ms"] == pytest.approx(total)
        alone = sum(operators[op]["ms"] for op in block["operators"])
        assert block["sequential_ms"] == pytest.approx(alone)
        for stage in block["stages"]:
            if stage["group_ms"]:
                assert len(stage["group_ms"]) == len(stage["groups"]) > 1


def check_memory(region: dict, operators: list[dict]) -> None:
    """The region's memory is that of its tensors, but tensors may share memory."""
    sizes = [math.prod(one["shape"]) * 4 for one in operators]
    # The largest tensor may be the output, which is not in the region's memory.
    assert sorted(sizes)[-2] <= region["arena_bytes"] < sum(sizes)


def test_the_report_of_a_network(tmp_path):
    target = str(tmp_path / "converted")
    report = ios_tf.convert(shared.branches(), target, batch_size=[1, 4], **shared.FAST)
    found = stored(target)
    assert found == json.loads(json.dumps(report.to_json()))
    assert found == document.read(target)
    assert found["verdict"] == report.verdict
    assert found["model"] == shared.branches()
    assert found["versions"]["tensorflow"] == tf.__version__
    lines = doctor.version_lines()
    for name in ("oneDNN", "instruction set"):
        assert f"{name} {found['versions'][name]}" in lines
    assert found["options"]["batch_size"] == [1, 4]
    assert "log" not in found["options"]
    assert found["machine"]["roofline"]["gflop_per_s"] > 0
    variables = Path(target, "variables", "variables.data-00000-of-00001")
    files = [path for path in Path(target).rglob("*") if path.is_file()]
    report_file = Path(target, "assets.extra", "ios_tf_report.json")
    total = sum(path.stat().st_size for path in files if path != report_file)
    assert found["memory"]["output_bytes"] == total > variables.stat().st_size
    assert found["memory"]["conversion_peak_bytes"] > 100 << 20
    sizes = [network["batch_size"] for network in found["networks"]]
    assert sizes == [1, 4]
    (signature,) = found["signatures"]
    for latencies in signature["latencies"].values():
        for name in ("tensorflow", "converted", "portable"):
            one = latencies[name]
            assert 0 < one["low_ms"] <= one["ms"] * 1.0001 <= one["high_ms"] * 1.0002
    first, second = found["networks"]
    assert [o["name"] for o in first["operators"]] == [
        o["name"] for o in second["operators"]
    ]
    for network, timeline in zip(found["networks"], found["timelines"], strict=True):
        check_network(network)
        names = {operator["name"] for operator in network["operators"]}
        assert timeline["batch_size"] == network["batch_size"]
        recorded = {
            name for one in timeline["slices"] for name in one["name"].split("+")
        }
        assert recorded <= names
        assert all(one["begin_ms"] <= one["end_ms"] for one in timeline["slices"])
        lanes = {one["lane"] for one in timeline["slices"]}
        assert lanes <= set(range(found["machine"]["lanes"]))
        (region,) = network["regions"]
        assert region["kept"]
        check_memory(region, network["operators"])
    assert len(first["operators"]) == report.operators
    # The first convolution of `networks.branches`, counted by hand: 3 x 3 windows of 3
    # channels give 8 channels of 17 x 17. The bias of a new layer is 0.
    convolution = first["operators"][0]
    assert convolution["type"] == "conv2d"
    assert convolution["attributes"]["kernel"] == [3, 3]
    assert convolution["shape"] == [1, 17, 17, 8]
    assert convolution["operations"] == 2 * 17 * 17 * 8 * 9 * 3
    weights = 9 * 3 * 8
    assert convolution["bytes"] == 4 * (17 * 17 * 3 + weights + 17 * 17 * 8)


def test_names_are_those_of_tensorflow(tmp_path):
    target = str(tmp_path / "converted")
    source = str(tmp_path / "model")
    inputs = keras.Input((9, 9, 3))
    a = layers.Conv2D(4, 3, padding="same", activation="relu", name="left")(inputs)
    b = layers.Conv2D(4, 1, padding="same", activation="relu", name="right")(inputs)
    outputs = layers.Dense(3, name="end")(layers.GlobalAveragePooling2D()(a + b))
    keras.Model(inputs, outputs).export(source, verbose=False)
    ios_tf.convert(source, target, **shared.FAST)
    (network,) = stored(target)["networks"]
    names = [operator["name"] for operator in network["operators"]]
    for layer in ("left", "right", "end"):
        assert sum(f"/{layer}" in name for name in names) == 1, names
    graph = tf.saved_model.load(source).signatures["serving_default"]
    nodes = {
        node.name
        for function in graph.graph.as_graph_def().library.function
        for node in function.node_def
    }
    ends = {name.rpartition("/")[2] for name in nodes}
    assert {name.rpartition("/")[2] for name in names} <= ends
    check_network(network)


def test_a_merge_is_one_stage(tmp_path, monkeypatch):
    """Schedules with every possible merge, as another strategy would find them."""
    from merges import merge_everything

    from ios_tf.scheduler import BASELINES

    monkeypatch.setitem(BASELINES, "greedy", merge_everything)
    target = str(tmp_path / "converted")
    ios_tf.convert(shared.branches(), target, strategy="greedy")
    (network,) = stored(target)["networks"]
    check_network(network)
    stages = [
        stage
        for region in network["regions"]
        for block in region["blocks"]
        for stage in block["stages"]
    ]
    merged = [stage for stage in stages if stage["strategy"] == "merge"]
    assert len(merged) == 2
    for stage in merged:
        (group,) = stage["groups"]
        types = {network["operators"][op]["type"] for op in group}
        assert types == {"conv2d"} and len(group) > 1


def test_a_copied_model_has_a_report(tmp_path):
    source, target = str(tmp_path / "model"), str(tmp_path / "converted")
    inputs = keras.Input((4,))
    keras.Model(inputs, layers.Dense(3)(inputs)).export(source, verbose=False)
    report = ios_tf.convert(source, target, **shared.FAST)
    found = stored(target)
    assert found["verdict"] == report.verdict == "copied"
    assert found["networks"] == found["signatures"] == []
    codes = [decision["code"] for decision in found["decisions"]]
    assert codes == [decision.code for decision in report.decisions]
    assert Reason.NO_CONVOLUTION.code in codes and Reason.COPIED.code in codes
    assert report.speedup == 1.0
    assert report.headline.startswith("model is left to TensorFlow")
    assert str(report).splitlines()[0] == report.headline


def test_samples_and_other_objects_are_not_in_the_report(tmp_path):
    network = fm.Network()
    source, target = str(tmp_path / "model"), str(tmp_path / "converted")
    fm.save(network, source, lambda x: {"y": network(x)}, fm.image_spec())
    secret = np.full([4, 12, 12, 3], 0.123456, np.float32)
    ios_tf.convert(source, target, samples={"x": secret}, **shared.FAST)
    found = stored(target)
    assert found["options"]["samples"] == "dict"
    assert "0.123456" not in json.dumps(found)


def test_the_report_of_optimize():
    network = fm.Network()
    function = tf.function(network, input_signature=[fm.image_spec()])
    report = ios_tf.optimize(function, **shared.FAST).report
    found = report.to_json()
    jsonschema.validate(found, document.schema())
    assert found["output"] is None
    assert len(found["networks"]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be parsed as JSON"),
        ("[]", "the file is not a report of ios_tf"),
        ('{"verdict": "copied", "version": 99}', "the report has version 99"),
        ('{"verdict": "copied", "version": 1}', "must contain"),
        ("[" * 100_000, "nested"),
    ],
)
def test_files_that_are_not_reports(tmp_path: Path, content: str, message: str):
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(UserError, match=message):
        document.read(str(path))


def test_models_without_a_report(tmp_path):
    with pytest.raises(UserError, match="has no report"):
        document.read(str(tmp_path))
    with pytest.raises(UserError, match="No such file"):
        document.read(str(tmp_path / "nothing"))


def test_the_command(tmp_path, capsys):
    target, file = str(tmp_path / "converted"), str(tmp_path / "report.html")
    report = ios_tf.convert(shared.branches(), target, **shared.FAST)
    assert run(capsys, "report", target) == (0, f"{report}\n", "")
    code, out, _ = run(capsys, "report", target, "--json")
    assert (code, json.loads(out)) == (0, stored(target))
    written = f"{file} was written. Open it in a browser\n"
    assert run(capsys, "report", target, file) == (0, written, "")
    first = Path(file).read_text()
    assert first.startswith("<!DOCTYPE html>")
    # The command also accepts the JSON document as a file, without a model.
    json_file = tmp_path / "report.json"
    json_file.write_text(out)
    assert run(capsys, "report", str(json_file), file) == (0, written, "")
    assert Path(file).read_text() == first


def test_two_conversions(tmp_path, capsys):
    targets = [str(tmp_path / name) for name in ("a", "b")]
    for target, strategy in zip(targets, ("greedy", "sequential"), strict=True):
        ios_tf.convert(shared.branches(), target, **shared.FAST, strategy=strategy)
    code, out, error = run(capsys, "report", *targets)
    assert (code, error) == (0, "")
    assert re.search(r"--strategy +greedy +sequential\n", out)
    # The greedy stages of the two branching blocks run several operators.
    assert re.search(r"stages -> \d+: .*\d -> 0 concurrent", out)
    file = str(tmp_path / "page.html")
    written = f"{file} was written. Open it in a browser\n"
    assert run(capsys, "report", *targets, file) == (0, written, "")
    assert "What changed from A to B" in Path(file).read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["MODEL", "page.pdf"], "MODEL has no report"),
        (["a", "b", "c"], "give one or two converted models"),
        (["MODEL", "missing/page.html"], "No such file or directory"),
        (["MODEL"], "has no report"),
        (["missing"], "missing cannot be read: No such file or directory"),
    ],
)
def test_wrong_use_of_the_command(tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    os.mkdir("MODEL")
    code, out, error = run(capsys, "report", *words)
    assert (code, out) == (1, "")
    assert message in error and len(error.splitlines()) == 1
    assert os.listdir() == ["MODEL"]


def test_convert_writes_a_page(tmp_path, capfd):
    target, file = str(tmp_path / "converted"), tmp_path / "page.html"
    words = ["convert", shared.branches(), target, f"--report={file}", "--keep_slower"]
    assert main([*words, "--runs=1", "--sample_count=1", "--time_limit=1"]) == 0
    assert f"<title>{stored(target)['model'].rpartition('/')[2]}" in file.read_text()
    wrong = tmp_path / "missing" / "page.html"
    assert main(["convert", "keras:MobileNetV2", "out", f"--report={wrong}"]) == 1
    assert "No such file or directory" in capfd.readouterr().err
