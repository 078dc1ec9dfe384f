"""The device to schedule for: requested, available and missing devices."""

import types

import pytest
import tensorflow as tf

from ios_tf.errors import UserError
from ios_tf.native import devices, engine, plugin


@pytest.fixture
def visible(monkeypatch):
    """Makes TensorFlow see GPUs with these numbers."""

    def set_visible(*ordinals: int) -> None:
        gpus = [
            types.SimpleNamespace(name=f"/physical_device:GPU:{i}") for i in ordinals
        ]
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)

    return set_visible


@pytest.fixture
def fingerprints(monkeypatch) -> list[str]:
    """The devices whose fingerprints are requested; the engine reports all of them."""
    asked = []
    monkeypatch.setattr(engine, "device_fingerprint", lambda d: asked.append(d) or d)
    return asked


@pytest.fixture
def without_libraries(monkeypatch):
    def fail(device: str) -> str:
        raise engine.EngineError("cannot load libcudnn.so.9: install cuDNN 9")

    monkeypatch.setattr(engine, "device_fingerprint", fail)


def test_auto_is_the_cpu_where_tensorflow_sees_no_gpu(visible, fingerprints):
    visible()
    lines = []
    assert devices.choose("auto", lines.append) == devices.CPU
    assert lines == [
        "the model is scheduled for the CPU, because TensorFlow does not find a GPU"
    ]
    assert fingerprints == []


def test_auto_is_the_cpu_where_a_library_is_missing(visible, without_libraries):
    visible(0)
    lines = []
    assert devices.choose("auto", lines.append) == devices.CPU
    (line,) = lines
    assert "libcudnn.so.9" in line


@pytest.mark.parametrize("name", ["auto", "gpu"])
def test_gpu_is_the_first_that_tensorflow_uses(name, visible, fingerprints):
    visible(2, 3)
    lines = []
    found = devices.choose(name, lines.append)
    assert found == devices.Device("gpu", "gpu:2", "/device:GPU:0")
    assert lines == []
    assert fingerprints == ["gpu:2"]


def test_another_gpu_becomes_the_only_one(visible, fingerprints, monkeypatch):
    visible(2, 3)
    chosen = []
    monkeypatch.setattr(
        tf.config, "set_visible_devices", lambda *what: chosen.append(what)
    )
    found = devices.choose("gpu:1")
    assert found == devices.Device("gpu", "gpu:3", "/device:GPU:0")
    ((gpu, kind),) = chosen
    assert (gpu.name, kind) == ("/physical_device:GPU:3", "GPU")


def test_gpus_cannot_be_chosen_once_tensorflow_uses_them(visible, monkeypatch):
    def fail(*what):
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    visible(0, 1)
    monkeypatch.setattr(tf.config, "set_visible_devices", fail)
    with pytest.raises(UserError, match=r"gpu:1: .* variable CUDA_VISIBLE_DEVICES$"):
        devices.choose("gpu:1")


def test_gpu_of_a_number_that_there_is_not(visible, fingerprints):
    visible(0)
    with pytest.raises(UserError, match=r"^device gpu:1: TensorFlow sees 1 GPU$"):
        devices.choose("gpu:1")


def test_gpu_without_anything_names_all_that_is_missing(visible, without_libraries):
    visible()
    with pytest.raises(UserError) as error:
        devices.choose("gpu")
    assert str(error.value) == (
        "device gpu: TensorFlow does not find a GPU; cannot load libcudnn.so.9: "
        "install cuDNN 9"
    )


def test_gpu_that_tensorflow_does_not_see(visible, fingerprints):
    visible()
    with pytest.raises(UserError, match=r"TensorFlow does not find a GPU$"):
        devices.choose("gpu")


def test_cpu_asks_for_nothing(visible, without_libraries):
    visible(0)
    assert devices.choose("cpu") == devices.CPU


def test_unknown_device():
    for name in ("tpu", "gpu:", "gpu:x", "cuda", "gpu,tf32=off"):
        with pytest.raises(UserError, match=f"not '{name}'"):
            devices.choose(name)


def test_precisions_have_caches_of_their_own(visible, cuda):
    visible(0)
    names = []
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    try:
        for tf32 in (True, False):
            tf.config.experimental.enable_tensor_float_32_execution(tf32)
            found = devices.choose("gpu")
            names.append(plugin.device_fingerprint(found.engine))
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(enabled)
    assert names[0] != names[1]
    assert names[1] == names[0] + "_no_TF32"
