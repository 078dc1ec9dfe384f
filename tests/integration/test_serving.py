"""examples/serving: a model server accepts the prepared models, and C and C++ programs
serve them with TensorFlow's own libraries."""

import os
import subprocess
import sys
from pathlib import Path

import native_build
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf
from commands import run_prepared
from serving_examples import EXAMPLES, prepare, prepared_models, run

from ios_tf.native import plugin

PLUGIN = str(plugin.LIBRARIES / "libios_tf_ops.so")
BATCH_SIZES = (1, 2, 3)
THREADS, RUNS = "8", "80"

pytest.importorskip("tensorflow_serving.apis", reason="tensorflow-serving-api")


@pytest.fixture(scope="module")
def served() -> Path:
    return prepared_models()


@pytest.fixture(scope="module")
def programs() -> Path:
    return shared.made_once("serving_programs", _build)


def _build(directory: Path) -> None:
    flags = {"CXXFLAGS": "-O0", "LDFLAGS": " ".join(native_build.linker())}
    environment = {**os.environ, "PYTHON": sys.executable, **flags}
    subprocess.run([EXAMPLES / "build.sh", directory], env=environment, check=True)


def warmup_inputs(model: Path) -> list[np.ndarray]:
    from tensorflow_serving.apis import prediction_log_pb2

    inputs = []
    path = model / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset([str(path)]):
        log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
        (value,) = log.predict_log.request.inputs.values()
        inputs.append(tf.make_ndarray(value))
    return inputs


def outputs_of(model: Path) -> list[np.ndarray]:
    function = tf.saved_model.load(str(model)).signatures["serving_default"]
    results = []
    for images in warmup_inputs(model):
        (result,) = function(tf.constant(images)).values()
        results.append(result.numpy())
    return results


def split(content: bytes, like: list[np.ndarray]) -> list[np.ndarray]:
    values = np.frombuffer(content, np.float32)
    assert values.size == sum(value.size for value in like)
    ends = np.cumsum([value.size for value in like])[:-1]
    parts = np.split(values, ends)
    return [p.reshape(v.shape) for p, v in zip(parts, like, strict=True)]


@pytest.mark.parametrize("plugin", [PLUGIN, ""], ids=["plugin", "stock"])
@pytest.mark.parametrize("language", ["c", "cc"])
def test_programs_serve_the_model(language, plugin, served, programs, tmp_path):
    model = served / "branches" / "7"
    output = tmp_path / "outputs"
    if language == "c":
        command = ["load_model_c", model, plugin, THREADS, RUNS, output]
    else:
        flags = [f"--plugin={plugin}", f"--threads={THREADS}", f"--runs={RUNS}"]
        (tmp_path / "session.config").write_text("inter_op_parallelism_threads: 2")
        config = f"--session_config={tmp_path / 'session.config'}"
        command = ["load_model_cc", model, *flags, config, f"--outputs={output}"]
    command[0] = programs / command[0]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("warm-up request") == len(BATCH_SIZES)
    assert f"{RUNS} runs in {THREADS} threads" in done.stdout
    assert " 0 differ" in done.stdout
    expected = outputs_of(model)
    assert [len(value) for value in expected] == list(BATCH_SIZES)
    found = split(output.read_bytes(), expected)
    same = [bool((f == e).all()) for f, e in zip(found, expected, strict=True)]
    if plugin:  # the engine gives the same bits as in this process
        assert all(same)
    else:
        assert not any(same)  # otherwise the plugin did nothing
        for f, e in zip(found, expected, strict=True):
            assert networks.relative_difference(f, e) < 1e-4


@pytest.mark.parametrize("language", ["c", "cc"])
def test_programs_say_what_is_wrong(language, programs, tmp_path):
    program = programs / f"load_model_{language}"
    rest = ["1", "1", "/dev/null"] if language == "c" else []
    bad = str(tmp_path / "no.so")
    plugin = [bad] if language == "c" else [f"--plugin={bad}"]
    done = subprocess.run(
        [program, tmp_path, *plugin, *rest], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "no.so" in done.stderr


def test_prepared_model_computes_what_the_original_does(served):
    expected = tf.saved_model.load(shared.branches())
    images = networks.smooth_images(2, 17, seed=3)
    (truth,) = expected.signatures["serving_default"](images).values()
    converted = tf.saved_model.load(str(served / "branches" / "7"))
    (found,) = converted.signatures["serving_default"](images).values()
    assert networks.relative_difference(found.numpy(), truth.numpy()) < 1e-4


def batching_parameters(text: str):
    """The part of TensorFlow Serving's session_bundle_config.proto that is written."""
    from google.protobuf import (
        descriptor_pb2,
        descriptor_pool,
        message_factory,
        text_format,
        wrappers_pb2,
    )

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto(
        name="batching.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=[wrappers_pb2.DESCRIPTOR.name],
    )
    message = file.message_type.add(name="BatchingParameters")
    for name, number in (("max_batch_size", 1), ("batch_timeout_micros", 2)):
        message.field.add(
            name=name,
            number=number,
            type="TYPE_MESSAGE",
            type_name=".google.protobuf.Int64Value",
            label="LABEL_OPTIONAL",
        )
    message.field.add(
        name="allowed_batch_sizes", number=6, type="TYPE_INT64", label="LABEL_REPEATED"
    )
    pool.Add(file)
    name = "tensorflow.serving.BatchingParameters"
    parameters = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
    text_format.Parse(text, parameters)
    return parameters


def test_configurations_are_what_the_server_reads(served):
    """Both models are listed; requests to one of them can be joined to batches."""
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    models = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((served / "models.config").read_text(), models)
    first, second = models.model_config_list.config
    assert (first.name, first.base_path) == ("branches", str(served / "branches"))
    assert (second.name, second.base_path) == ("one", "/models/one")
    assert {first.model_platform, second.model_platform} == {"tensorflow"}
    assert os.listdir(served / "branches") == ["7"]
    assert os.listdir(served / "one") == ["1"]

    of_model = served / "branches" / "7" / "batching_params.pbtxt"
    for path in (of_model, served / "batching.config"):
        parameters = batching_parameters(path.read_text())
        assert tuple(parameters.allowed_batch_sizes) == BATCH_SIZES
        assert parameters.max_batch_size.value == BATCH_SIZES[-1]  # a rule of Serving
    assert parameters.batch_timeout_micros.value == 1000
    assert not (served / "one" / "1" / "batching_params.pbtxt").exists()


def test_preparing_another_model_keeps_settings_of_the_others(tmp_path):
    """The settings of an administrator are kept."""
    path = tmp_path / "models.config"
    path.write_text(
        """
        model_config_list { config {  # by hand
            name: "old" base_path: "/old" model_platform: "tensorflow"
            model_version_policy { specific { versions: 3 versions: 4 } }
            version_labels { key: "canary" value: 4 }
        } }
        """
    )
    models = prepare._read_models(path)
    prepare._list_model(models, "new", "/new")
    prepare._list_model(models, "old", "/moved")
    old, new = models.model_config_list.config
    assert (old.base_path, new.base_path) == ("/moved", "/new")
    assert list(old.model_version_policy.specific.versions) == [3, 4]
    assert dict(old.version_labels) == {"canary": 4}


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--version=7"], 1, "already exists; use --version=8"),
        (["--version=0"], 2, "version must be a whole number >= 1, not 0"),
        (["--batch_sizes=8,8"], 2, "lists 8 more than once"),
        (["--batch_sizes=x"], 2, "must be a whole number >= 1, not 'x'"),
        (["--name=a/b"], 2, "must consist of letters"),
        (["--signature=nope"], 1, "there is no signature 'nope'"),
    ],
)
def test_prepare_refuses_before_it_converts(
    flags, code, message, served, monkeypatch, capsys
):
    def files():
        paths = sorted(path for path in served.rglob("*") if path.is_file())
        return {path: path.stat().st_mtime_ns for path in paths}

    before = files()
    arguments = [shared.branches(), served, "--name=branches", *flags]
    found, _, error = run(prepare, arguments, monkeypatch, capsys)
    assert found == code
    assert message in error
    assert error.count("\n") == 1
    assert files() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model_config_list { config { nme: "x" } }', 'has no field named "nme"'),
        ("custom_model_config {}", "has a custom_model_config"),
    ],
)
def test_prepare_leaves_foreign_configurations_alone(
    text, message, tmp_path, monkeypatch, capsys
):
    (tmp_path / "models.config").write_text(text)
    code, _, error = run(prepare, [shared.branches(), tmp_path], monkeypatch, capsys)
    assert code == 1
    assert message in error
    assert (tmp_path / "models.config").read_text() == text
    assert os.listdir(tmp_path) == ["models.config"]


def test_prepare_names_a_path_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    arguments = [shared.branches(), tmp_path / "file" / "models"]
    code, _, error = run(prepare, arguments, monkeypatch, capsys)
    assert code == 1
    assert str(tmp_path / "file") in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "command", [["load_test.py", "model"], ["prepare.py", "model", "directory"]]
)
def test_missing_serving_api_is_one_line(command, tmp_path):
    (tmp_path / "tensorflow_serving.py").write_text("")  # without `apis`
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    script = EXAMPLES / command[0]
    done = run_prepared(script, *command[1:], status=1, PYTHONPATH=paths)
    assert "pip install tensorflow-serving-api" in done.stderr
