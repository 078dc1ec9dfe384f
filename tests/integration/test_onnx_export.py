"""export-onnx compared with TensorFlow and ONNX Runtime: merges, signature names."""

import importlib.util
import json
import os
import sys

import keras
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf
from commands import run_prepared
from keras import layers
from merges import merge_everything

import ios_tf
from ios_tf.cli import main
from ios_tf.conversion import onnx_export
from ios_tf.conversion.onnx_export import export_onnx
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.reasons import Reason

pytestmark = pytest.mark.usefixtures("cache")

onnx = pytest.importorskip("onnx", reason="pip install 'ios-tf[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'ios-tf[onnx]'")
pytest.importorskip("tf2onnx", reason="pip install 'ios-tf[onnx]'")


def branches() -> keras.Model:
    """Three convolutions of one tensor, which merge into one."""
    inputs = keras.Input((16, 16, 3), name="image")
    parts = [
        layers.Conv2D(8, kernel, padding="same", activation="relu")(inputs)
        for kernel in (1, 3, 5)
    ]
    x = layers.GlobalAveragePooling2D()(layers.Concatenate()(parts))
    keras.utils.set_random_seed(0)
    return keras.Model(inputs, layers.Dense(4)(x))


def merged_saved_model(source: str, target: str) -> None:
    """Saves `source` with every legal merge, whether or not it is fast."""
    loaded = saved_models.load(source)
    functions = {}
    for name, signature in loaded.signatures.items():
        frozen = graph_optimizer.fold_constants(frozen_graphs.freeze(name, signature))
        problems = graph_optimizer.collect(frozen, 1).problems
        schedules = {key: merge_everything(p) for key, p in problems.items()}
        graph_def = graph_optimizer.rewrite(frozen, schedules, [1])
        functions[name] = frozen_graphs.rebuild(frozen, graph_def)
    saved_models.save(loaded, functions, target)


def run_onnx(path, **inputs: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def convolutions(path) -> int:
    return sum(node.op_type == "Conv" for node in onnx.load(path).graph.node)


def test_tf2onnx_takes_converted_models(tmp_path):
    model = branches()
    model.export(tmp_path / "model", verbose=False)
    ios_tf.convert(
        tmp_path / "model", tmp_path / "converted", strategy="greedy", time_limit=5
    )
    # Calls tf2onnx in a process that does not import ios_tf.
    path, output = str(tmp_path / "converted"), str(tmp_path / "converted.onnx")
    words = ["--saved-model", path, "--output", output]
    run_prepared("-m", "tf2onnx.convert", *words)
    images = networks.smooth_images(2, 16).numpy()
    (found,) = run_onnx(output, image=images)
    assert networks.relative_difference(found, model(images).numpy()) < 1e-4


def test_merged_convolutions_are_exported(tmp_path):
    model = branches()
    model.export(tmp_path / "model", verbose=False)
    merged_saved_model(str(tmp_path / "model"), str(tmp_path / "merged"))
    plain = export_onnx(str(tmp_path / "model"), tmp_path / "plain.onnx")
    merged = export_onnx(str(tmp_path / "merged"), tmp_path / "merged.onnx")
    assert (plain.merged, merged.merged) == (0, 1)
    assert convolutions(tmp_path / "plain.onnx") == 3
    assert convolutions(tmp_path / "merged.onnx") == 1
    for batch in (1, 4):
        images = networks.smooth_images(batch, 16).numpy()
        (found,) = run_onnx(tmp_path / "merged.onnx", image=images)
        expected = model(images).numpy()
        assert networks.relative_difference(found, expected) < 1e-4


def test_converted_network(tmp_path):
    exported = export_onnx(shared.converted_cells(), tmp_path / "model.onnx")
    assert exported.signature == "serving_default"
    assert exported.difference < 1e-4
    images = networks.smooth_images(2, 17, seed=5).numpy()
    (name,) = (i.name for i in onnx.load(tmp_path / "model.onnx").graph.input)
    (found,) = run_onnx(tmp_path / "model.onnx", **{name: images})
    expected = tf.saved_model.load(shared.cells()).signatures["serving_default"]
    (truth,) = expected(tf.constant(images)).values()
    assert networks.relative_difference(found, truth.numpy()) < 1e-4


def test_names_and_structure_of_signatures(tmp_path):
    module = tf.Module()
    kernel = tf.Variable(tf.random.normal([3, 3, 3, 4]))
    module.kernel = kernel

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 9, 9, 3], tf.float32, "photo"),
            tf.TensorSpec([], tf.float32, "gain"),
        ]
    )
    def call(photo, gain):
        y = tf.nn.relu(tf.nn.conv2d(photo, kernel, 2, "SAME"))
        return {"scaled": y * gain, "features": y}

    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"two": call})
    exported = export_onnx(str(tmp_path / "model"), tmp_path / "model.onnx")
    assert exported.signature == "two"
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert {i.name for i in graph.input} == {"photo", "gain"}
    assert {o.name for o in graph.output} == {"scaled", "features"}
    photo = networks.smooth_images(3, 9).numpy()
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (found,) = session.run(["scaled"], {"photo": photo, "gain": np.array(0.5, "f")})
    np.testing.assert_allclose(found, call(photo, 0.5)["scaled"], rtol=1e-4, atol=1e-4)


def test_wrong_results_are_not_written(tmp_path, monkeypatch):
    branches().export(tmp_path / "model", verbose=False)
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)
    with pytest.raises(ios_tf.UserError, match="differ"):
        export_onnx(str(tmp_path / "model"), tmp_path / "model.onnx")
    assert sorted(os.listdir(tmp_path)) == ["model"]


def test_what_onnx_cannot_hold_is_one_line(tmp_path):
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([1, 2], ["a", "b"]), "?"
    )
    module.look = tf.function(
        module.table.lookup, input_signature=[tf.TensorSpec([None], tf.int32)]
    )
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.look)
    with pytest.raises(ios_tf.UserError, match="tables") as error:
        export_onnx(str(tmp_path / "model"), tmp_path / "model.onnx")
    assert "\n" not in str(error.value)
    with pytest.raises(ios_tf.UserError, match="directory"):
        export_onnx(str(tmp_path / "model"), tmp_path / "none" / "model.onnx")


def test_operators_that_onnx_lacks_are_one_line(tmp_path, capfd):
    module = tf.Module()
    module.call = tf.function(
        lambda x: tf.linalg.svd(x, compute_uv=False),
        input_signature=[tf.TensorSpec([None, 3, 3], tf.float32, "x")],
    )
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.call)
    code = main.main(["export-onnx", str(tmp_path / "model"), str(tmp_path / "m.onnx")])
    assert code == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "Svd" in line and "not supported" in line
    assert os.listdir(tmp_path) == ["model"]


def test_inputs_of_strings_are_one_line(tmp_path):
    module = tf.Module()
    module.kernel = tf.Variable(tf.random.normal([3, 3, 3, 4]))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "name"),
            tf.TensorSpec([None, 8, 8, 3], tf.float32, "x"),
        ]
    )
    def call(name, x):
        y = tf.nn.conv2d(x, module.kernel, 1, "SAME")
        return {"y": y, "name": tf.strings.upper(name)}

    tf.saved_model.save(module, str(tmp_path / "model"), signatures=call)
    with pytest.raises(ios_tf.UserError) as error:
        export_onnx(str(tmp_path / "model"), tmp_path / "model.onnx")
    text = str(error.value)
    assert "input 'name' has strings" in text
    assert "\n" not in text and "<function" not in text


def test_without_onnx_runtime(tmp_path, monkeypatch, capfd):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "onnxruntime" else find(name, *rest),
    )
    branches().export(tmp_path / "model", verbose=False)
    capfd.readouterr()
    words = ["export-onnx", str(tmp_path / "model"), str(tmp_path / "model.onnx")]
    assert main.main([*words, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    (decision,) = found["decisions"]
    assert decision["code"] == Reason.NO_ONNX_RUNTIME.code
    assert found["difference"] is None
    assert convolutions(tmp_path / "model.onnx") == 3


def test_missing_tf2onnx_is_one_line(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)  # makes its import fail
    assert main.main(["export-onnx", "model", "model.onnx"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "pip install tf2onnx onnxruntime" in line
