"""The zoo benchmark measures networks one by one and keeps earlier results."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import ios_tf
from benchmarks import processes
from benchmarks.__main__ import main
from benchmarks.zoo import command
from benchmarks.zoo.layers import classifier, conv_norm
from benchmarks.zoo.measure import Options, difference, measure
from benchmarks.zoo.model import keras_model, module_model
from benchmarks.zoo.page import page
from benchmarks.zoo.registry import networks
from ios_tf.native import engine

ROW = {
    "operators": 12,
    "share": 0.995,
    "regions": 2,
    "difference": 3e-6,
    "stock_difference": 0.0,
    "spread": 0.5,
    "convert_seconds": 10.0,
    "convert_mib": 900.0,
    "latency": {
        "1": {
            "ratio": 0.5,
            "tensorflow_ms": 7.0,
            "converted_ms": 3.5,
            "other_cores": 0.0,
        }
    },
}


def convert_here(source, output, keywords):
    return ios_tf.convert(source, output, **keywords).notes, 1.0


def tiny_keras_network():
    inputs = keras.Input((12, 10, 3))
    x = conv_norm(inputs, 8)
    x = layers.Concatenate()([conv_norm(x, 4, 1), conv_norm(x, 6)])
    return keras_model(keras.Model(inputs, classifier(x, 5)))


def tiny_module():
    filters = tf.Variable(np.random.default_rng(0).normal(size=[3, 3, 3, 4]))
    filters = tf.cast(filters, tf.float32)

    def call(images):
        x = tf.nn.relu(tf.nn.conv2d(images, filters, 1, "VALID"))
        return {"maps": x, "argmax": tf.argmax(x, -1)}

    return module_model(call, [], (None, 9, 8, 3))


@pytest.mark.parametrize(
    ("build", "multiplications"),
    [
        (
            tiny_keras_network,
            12 * 10 * (9 * 3 * 8 + 8 * 4 + 9 * 8 * 6) + 10 * 5,
        ),
        (tiny_module, 7 * 6 * 9 * 3 * 4),
    ],
)
def test_a_network_is_converted_compared_and_timed(build, multiplications):
    options = Options((1, 2), time_limit=5, strategy="greedy")
    row = measure(build(), options, convert_here)
    assert row["multiplications"] == multiplications
    assert row["share"] == 1
    assert row["regions"] == 1
    assert row["difference"] < 1e-4
    assert row["stock_difference"] < 1e-4
    assert row["spread"] > 0.1
    assert list(row["latency"]) == ["1", "2"]
    for latency in row["latency"].values():
        assert latency.pop("busy") in (True, False)
        assert min(latency.values()) > 0


def test_a_report_is_validated_without_measurements():
    options = Options((1,), strategy="sequential", only_report=True)
    row = measure(tiny_keras_network(), options, convert_here)
    assert row.pop("convert_seconds") > 0
    assert row == {"operators": 6}

    def break_report(source, output, keywords):
        found = convert_here(source, output, keywords)
        file = pathlib.Path(output, "assets.extra", "ios_tf_report.json")
        file.write_text(json.dumps({**json.loads(file.read_text()), "blocks": "none"}))
        return found

    with pytest.raises(ios_tf.UserError, match="blocks"):
        measure(tiny_keras_network(), options, break_report)


def test_outputs_depend_on_the_input_without_batch_norms():
    inputs = keras.Input((24, 24, 3))
    x = inputs
    for _ in range(8):
        x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    outputs = layers.Dense(5)(layers.GlobalAveragePooling2D()(x))
    network = keras.Model(inputs, outputs)
    model = keras_model(network)
    (images,) = model.inputs(2).values()
    found = network(images).numpy()
    assert difference({"": tf.constant(found[1])}, {"": tf.constant(found[0])}) > 0.5


def test_differences():
    truth = {"y": tf.constant([1.0, -4.0]), "i": tf.constant([1, 2, 3, 4])}
    assert difference(truth, truth) == 0
    assert difference({**truth, "y": tf.constant([1.0, -3.0])}, truth) == 0.25
    assert difference({**truth, "i": tf.constant([1, 2, 3, 5])}, truth) == 0.25
    assert difference({**truth, "y": tf.constant([[1.0, -4.0]])}, truth) == np.inf
    nan = {**truth, "y": tf.constant([np.nan, -4.0])}
    assert difference(nan, truth) == np.inf
    assert difference(nan, nan) == 0
    infinite = {**truth, "y": tf.constant([np.inf, -4.0])}
    assert difference(truth, infinite) == np.inf
    assert difference(infinite, infinite) == 0


def test_all_networks_are_known():
    names = list(networks())
    assert {"keras:InceptionV3", "keras:ConvNeXtTiny", "unet_transpose"} <= set(names)
    assert sum(name.startswith("keras:") for name in names) >= 38


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """Runs the command; gives its exit code and the networks that it measured."""

    def run(rows, *words):
        measured = []

        def fake(name, sizes, options):
            measured.append(name)
            return rows[name]

        monkeypatch.setattr(command, "_measure", fake)
        files = f"--json={tmp_path / 'z.json'}", f"--page={tmp_path / 'z.md'}"
        return main(["zoo", *files, "--batch_sizes=1", *words]), measured

    return run


def test_what_was_measured_is_kept(zoo, tmp_path):
    rows = {"tf_module": ROW, "text_cnn": {"failure": "took more than 5 s"}}
    words = ["--networks=^(tf_module|text_cnn)$"]
    assert zoo(rows, "--networks=^text_cnn$") == (0, ["text_cnn"])
    assert zoo(rows, *words) == (0, ["tf_module"])
    assert zoo(rows, *words) == (0, [])
    text = (tmp_path / "z.md").read_text()
    assert "| tf_module | 12 | 99.50 % | 2 | 3.0e-06 | 0.0e+00 | 10 s |" in text
    assert "| 0.50 (7.0 ms) |" in text
    assert "* text_cnn: took more than 5 s" in text
    rows["text_cnn"] = ROW
    assert zoo(rows, *words, "--retry") == (0, ["text_cnn"])
    assert "more than 5 s" not in (tmp_path / "z.md").read_text()
    busy = {**ROW["latency"]["1"], "other_cores": 0.5}
    rows["text_cnn"] = {**ROW, "latency": {"1": busy}}
    assert zoo(rows, "--networks=^text_cnn$", "--again")[0] == 0
    assert "| 0.50* (7.0 ms) |" in (tmp_path / "z.md").read_text()
    assert sorted(zoo(rows, *words, "--again")[1]) == ["text_cnn", "tf_module"]


def test_only_reports(zoo, tmp_path, capsys):
    rows = {
        "tf_module": {"operators": 3, "convert_seconds": 1.6},
        "text_cnn": {"failure": "took more than 5 s"},
    }
    words = ["--only_reports", "--networks=^(tf_module|text_cnn)$"]
    assert zoo(rows, *words) == (1, ["text_cnn", "tf_module"])
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "1/2 text_cnn: took more than 5 s"
    assert second == "2/2 tf_module: valid, 3 operators, 2 s"
    assert last == "1 of 2 reports are valid"
    assert not list(tmp_path.iterdir())


def test_rows_of_other_machines_are_kept(zoo, tmp_path):
    """Another machine's rows keep their table; the network is measured again here."""
    old = {"network": "tf_module", "device": "another", "tensorflow": "1.0"}
    old |= {"date": "2020-01-02", **ROW, "spread": 0.001}
    # An old row that has fewer fields.
    few = {"ratio": 0.9, "tensorflow_ms": 3.0, "busy": False}
    less = {"network": "text_cnn", "device": "another", "tensorflow": "1.0"}
    less |= {"date": "2020-01-05", "regions": 7, "latency": {"1": few}}
    record = {"version": 2, "batch_sizes": [1], "rows": [old, less]}
    record["notes"] = {"another": "A quiet machine."}
    (tmp_path / "z.json").write_text(json.dumps(record))
    words = ["--networks=^tf_module$"]
    assert zoo({"tf_module": ROW}, *words) == (0, ["tf_module"])
    assert zoo({"tf_module": ROW}, *words) == (0, [])
    assert zoo({"tf_module": ROW}, *words, "--again") == (0, ["tf_module"])
    rows = json.loads((tmp_path / "z.json").read_text())["rows"]
    assert rows[:2] == [old, less] and len(rows) == 3
    assert rows[2]["device"] == engine.device_fingerprint("cpu")
    assert rows[2]["tensorflow"] == tf.__version__
    assert len(rows[2]["date"]) == len("2020-01-02")
    text = (tmp_path / "z.md").read_text()
    first, second = text.split("## another")[1].split(f"## {rows[2]['device']}")
    assert "TensorFlow 1.0, 2020-01-02 to 2020-01-05." in first
    assert "A quiet machine." in first
    assert "| text_cnn |  |  | 7 |  |  |  |  | 0.90 (3.0 ms) |" in first
    assert "hardly depend on the input: tf_module" in first
    assert second.count("tf_module") == 1 and "hardly" not in second
    missing = second.partition("Not measured yet:")[2]
    assert "keras:VGG16" in missing and "text_cnn" not in missing


def test_the_page_is_that_of_the_record():
    root = pathlib.Path(__file__).parents[2]
    record = json.loads((root / "docs/benchmarks/models.json").read_text())
    assert (
        page(record, list(networks()))
        == (root / "docs/benchmarks/models.md").read_text()
    )


def test_errors_are_one_line(zoo, tmp_path, capsys):
    for words, message in (
        (["--networks=nothing_like_it"], "no such network"),
        (["--networks=("], "--networks=("),
        (["--page=/nowhere/z.md"], "/nowhere/z.md"),
    ):
        assert zoo({}, *words) == (1, [])
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    (tmp_path / "z.json").write_text(json.dumps({"version": 1}))
    assert zoo({}, "--networks=tf_module") == (1, [])
    assert "is not a record of the zoo" in capsys.readouterr().err


def test_a_process_that_fails_or_lasts_is_a_row(monkeypatch):
    options = command.argparse.Namespace(
        time_limit=1, strategy="greedy", process_limit=0.2, only_reports=False
    )

    def started_as(*words):
        monkeypatch.setattr(
            command,
            "run_for",
            lambda seconds, _, *rest: processes.run_for(seconds, words, *rest),
        )
        row = command._measure("tf_module", [1], options)
        monkeypatch.undo()
        return row

    assert started_as("sleep", "100") == {"failure": "took more than 0.2 s"}
    options.process_limit = 100
    assert started_as("sh", "-c", "kill -9 $$") == {
        "failure": "the process ended with signal 9"
    }
    assert started_as("sh", "-c", "echo no >&2; exit 1") == {"failure": "no"}
