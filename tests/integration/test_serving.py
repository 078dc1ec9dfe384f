"""examples/serving: a model server accepts the prepared model, and C and C++ programs
serve it with TensorFlow's own libraries."""

import concurrent.futures
import os
import shutil
import subprocess
import sys
from pathlib import Path

import native_build
import networks
import numpy as np
import pytest
import shared
import tensorflow as tf

from ios_tf.native import plugin

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "serving"
PLUGIN = str(plugin.LIBRARIES / "libios_tf_ops.so")
BATCH_SIZES = (1, 3, 2)
THREADS, RUNS = "8", "80"

pytest.importorskip("tensorflow_serving.apis", reason="tensorflow-serving-api")


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Path:
    """The files that prepare.py writes for a small network."""
    directory = tmp_path_factory.mktemp("served")
    shutil.copytree(shared.cells(), directory / "original")
    sizes = ",".join(map(str, BATCH_SIZES))
    subprocess.run(
        [sys.executable, EXAMPLES / "prepare.py", directory / "original", directory]
        + ["--name=cells", "--version=7", f"--batch_sizes={sizes}"],
        env={**os.environ, "IOS_TF_CACHE": str(directory / "cache")},
        check=True,
    )
    return directory


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
    model = served / "cells" / "7"
    output = tmp_path / "outputs"
    if language == "c":
        command = ["load_model_c", model, plugin, THREADS, RUNS, output]
    else:
        flags = [f"--plugin={plugin}", f"--threads={THREADS}", f"--runs={RUNS}"]
        config = f"--session_config={served / 'session.config'}"
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
    expected = tf.saved_model.load(str(served / "original"))
    images = networks.smooth_images(2, 17, seed=3)
    (truth,) = expected.signatures["serving_default"](images).values()
    converted = tf.saved_model.load(str(served / "cells" / "7"))
    (found,) = converted.signatures["serving_default"](images).values()
    assert networks.relative_difference(found.numpy(), truth.numpy()) < 1e-4


def adapter_config_class():
    """The part of TensorFlow Serving's session_bundle_config.proto that is used."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="adapter.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=["tensorflow/core/protobuf/config.proto"],
    )
    session = file.message_type.add(name="SessionBundleConfig")
    session.field.add(
        name="session_config",
        number=2,
        type="TYPE_MESSAGE",
        type_name=".tensorflow.ConfigProto",
    )
    session.field.add(name="enable_model_warmup", number=779, type="TYPE_BOOL")
    adapter = file.message_type.add(name="SavedModelBundleSourceAdapterConfig")
    adapter.field.add(
        name="legacy_config",
        number=1000,
        type="TYPE_MESSAGE",
        type_name=".tensorflow.serving.SessionBundleConfig",
    )
    for message in file.message_type:
        for field in message.field:
            field.label = field.LABEL_OPTIONAL
    pool = descriptor_pool.Default()
    pool.Add(file)
    name = "tensorflow.serving.SavedModelBundleSourceAdapterConfig"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_configurations_are_what_the_server_reads(served):
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2, platform_config_pb2

    models = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((served / "models.config").read_text(), models)
    (config,) = models.model_config_list.config
    assert config.name == "cells"
    assert config.base_path == str(served / "cells")
    assert os.listdir(config.base_path) == ["7"]

    adapter = adapter_config_class()()
    platform = platform_config_pb2.PlatformConfigMap()
    text_format.Parse((served / "platform.config").read_text(), platform)
    source = platform.platform_configs["tensorflow"].source_adapter_config
    assert source.Unpack(adapter)
    assert adapter.legacy_config.enable_model_warmup
    session = tf.compat.v1.ConfigProto()
    text_format.Parse((served / "session.config").read_text(), session)
    assert adapter.legacy_config.session_config == session
    (custom,) = session.graph_options.rewrite_options.custom_optimizers
    assert custom.name == "IosOptimizer"


def model_server(model: Path):
    """A stand-in for the model server that serves a model in this process."""
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    loaded = tf.saved_model.load(str(model))

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):  # noqa: N802
            if request.model_spec.name != "cells":
                context.abort(grpc.StatusCode.NOT_FOUND, "no such model")
            function = loaded.signatures[request.model_spec.signature_name]
            inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            for key, value in function(**inputs).items():
                response.outputs[key].CopyFrom(tf.make_tensor_proto(value.numpy()))
            return response

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        Service(), server
    )
    port = server.add_insecure_port("localhost:0")
    server.start()
    return server, port


def test_client(served):
    server, port = model_server(served / "cells" / "7")
    try:
        command = [sys.executable, EXAMPLES / "client.py", served / "original"]
        command += [f"--server=localhost:{port}", "--batch_size=2"]
        done = subprocess.run(
            [*command, "--name=cells"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "largest relative difference" in done.stdout
        done = subprocess.run([*command, "--name=no"], capture_output=True, text=True)
        assert done.returncode == 1
        assert "no such model" in done.stderr
    finally:
        server.stop(None)


@pytest.mark.parametrize(
    "command", [["client.py", "model"], ["prepare.py", "model", "directory"]]
)
def test_missing_serving_api_is_one_line(command, tmp_path):
    (tmp_path / "tensorflow_serving.py").write_text("")  # without `apis`
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, EXAMPLES / command[0], *command[1:]],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "pip install tensorflow-serving-api" in done.stderr
