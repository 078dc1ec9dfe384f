"""Models on a GPU that TensorFlow uses: converted, enabled, and called as users do.

These tests use a real GPU, so they run only if TensorFlow finds one. The expected
outputs come from TensorFlow's own kernels for CPUs.
"""

from __future__ import annotations

import graph_helpers as gh
import keras
import numpy as np
import pytest
import tensorflow as tf
from cache_helpers import undoing_enable
from commands import run_python
from keras import layers
from networks import relative_difference as difference
from threads import in_threads

import ios_tf
from ios_tf.model import function_library
from ios_tf.native import devices, engine, grappler

if not tf.config.list_physical_devices("GPU"):
    pytest.skip("TensorFlow finds no GPU", allow_module_level=True)

GPU, CPU = "/device:GPU:0", "/device:CPU:0"
# Tolerances relative to the largest value.
TOLERANCES = {"float32": 2e-3, "mixed_float16": 1e-2, "mixed_bfloat16": 5e-2}
DEVICE = devices.choose("gpu")


def network(seed: int = 0) -> keras.Model:
    """Branches that can merge or run concurrently, and all kinds of operators."""
    inputs = keras.Input((33, 31, 3))
    x = layers.Conv2D(16, 3, 2, "same", use_bias=False)(inputs)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    for filters in (8, 16):
        a = layers.Conv2D(filters, 1, activation="relu")(x)
        b = layers.Conv2D(filters, 3, 1, "same", activation="swish")(x)
        c = layers.Conv2D(filters, 5, 1, "same")(
            layers.AveragePooling2D(3, 1, "same")(x)
        )
        d = layers.SeparableConv2D(filters, 3, 1, "same", activation="elu")(x)
        x = layers.Concatenate()([a, b, c, d])
        gate = layers.Dense(x.shape[-1], "sigmoid")(layers.GlobalAveragePooling2D()(x))
        x = layers.Multiply()([x, layers.Reshape((1, 1, -1))(gate)])
        x = layers.Add()([x, layers.Conv2D(x.shape[-1], 1)(x)])
    x = layers.MaxPooling2D(3, 2, "same")(x)
    x = layers.GlobalAveragePooling2D()(layers.UpSampling2D()(x))
    outputs = layers.Dense(10, "softmax", dtype="float32")(x)
    return gh.randomised(keras.Model(inputs, outputs), seed)


def images(count: int, seed: int = 0) -> np.ndarray:
    return gh.random_array(count, 33, 31, 3, seed=seed)


def on_cpu(path: str, x: np.ndarray) -> np.ndarray:
    """The outputs of a SavedModel on TensorFlow's own kernels for the CPU."""
    with grappler.options(use_plugin_optimizers=False), tf.device(CPU):
        loaded = tf.saved_model.load(path)
        (result,) = loaded.signatures["serving_default"](tf.constant(x)).values()
        return result.numpy()


def regions(function, *arguments, **keywords) -> list[str]:
    """The devices of the regions that TensorFlow executes."""
    return [
        node.device
        for node in gh.executed_nodes(function, *arguments, **keywords)
        if node.op == "IosRegion"
    ]


@pytest.fixture(params=TOLERANCES)
def policy(request):
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_global_policy(request.param)
    yield request.param
    keras.mixed_precision.set_global_policy(before)


@pytest.fixture
def cache(tmp_path):
    """Options of conversions, with a separate cache in a temporary directory."""
    return {
        "cache_dir": str(tmp_path / "cache"),
        "time_limit": 20,
        "keep_slower": True,
        "log": print,
    }


def saved(tmp_path, model: keras.Model | None = None) -> str:
    path = str(tmp_path / "model")
    (model or network()).export(path, verbose=False)
    return path


def test_tensorflow_s_gpu_is_chosen():
    assert devices.choose("auto") == DEVICE
    assert DEVICE.kind == "gpu"
    print(engine.device_fingerprint(DEVICE.engine))


def test_conversion(tmp_path, cache, policy):
    source, output = saved(tmp_path), str(tmp_path / "converted")
    report = ios_tf.convert(source, output, batch_size=[1, 4], **cache)
    print(report)
    assert report.device_kind == "gpu"
    loaded = tf.saved_model.load(output)
    function = loaded.signatures["serving_default"]
    (name,) = function.structured_input_signature[1]
    placed = regions(function, **{name: tf.constant(images(1))})
    assert placed and all(device.endswith(GPU) for device in placed)
    for count in (1, 4, 3):
        x = images(count, seed=count)
        (found,) = function(**{name: tf.constant(x)}).values()
        expected = on_cpu(source, x)
        assert difference(found.numpy(), expected) < TOLERANCES[policy]


@pytest.mark.parametrize("strategy", ["sequential", "greedy", "merge", "parallel"])
def test_strategies(tmp_path, cache, strategy):
    source, output = saved(tmp_path), str(tmp_path / "converted")
    ios_tf.convert(source, output, strategy=strategy, **cache)
    function = tf.saved_model.load(output).signatures["serving_default"]
    x = images(2)
    (found,) = function(tf.constant(x)).values()
    assert difference(found.numpy(), on_cpu(source, x)) < TOLERANCES["float32"]


def test_tensorflow_s_switch_for_tf32(tmp_path, cache):
    source = saved(tmp_path)
    x = images(2)
    expected = on_cpu(source, x)
    enabled = tf.config.experimental.tensor_float_32_execution_enabled()
    differences = []
    try:
        for switch in (True, False):
            tf.config.experimental.enable_tensor_float_32_execution(switch)
            output = str(tmp_path / f"converted_{switch}")
            report = ios_tf.convert(source, output, **cache)
            assert report.device.endswith("_no_TF32") != switch
            function = tf.saved_model.load(output).signatures["serving_default"]
            (found,) = function(tf.constant(x)).values()
            differences.append(difference(found.numpy(), expected))
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(enabled)
    print(differences)
    assert differences[1] < 1e-5


@pytest.mark.parametrize("on_miss", ["greedy", "search"])
def test_enable(tmp_path, on_miss):
    model = network()
    x = images(2)
    expected = on_cpu(saved(tmp_path, model), x)
    with undoing_enable():
        ios_tf.enable(cache_dir=str(tmp_path / "cache"), on_miss=on_miss)
        call = gh.as_function(gh.freeze(model, (None, 33, 31, 3)))
        placed = regions(call, tf.constant(x))
        print(ios_tf.status())
        assert placed and all(device.endswith(GPU) for device in placed)
        for _ in range(3):
            (found,) = call(tf.constant(x))
            assert difference(found.numpy(), expected) < TOLERANCES["float32"]


def test_variables_that_are_assigned(tmp_path, cache, monkeypatch):
    """The region reads variables in TensorFlow's memory of the GPU."""
    monkeypatch.setattr(function_library, "LARGE_BYTES", 1)
    output = str(tmp_path / "converted")
    ios_tf.convert(saved(tmp_path), output, **cache)
    x = images(2)
    results = []
    converted = tf.saved_model.load(output)
    with grappler.options(use_plugin_optimizers=False), tf.device(CPU):
        stock = tf.saved_model.load(output)
    assert converted._weights
    for _ in range(3):
        (found,) = converted.signatures["serving_default"](tf.constant(x)).values()
        with grappler.options(use_plugin_optimizers=False), tf.device(CPU):
            (expected,) = stock.signatures["serving_default"](tf.constant(x)).values()
        results.append(expected.numpy())
        assert difference(found.numpy(), expected.numpy()) < TOLERANCES["float32"]
        for variable in (*converted._weights, *stock._weights):
            variable.assign(0.9 * variable)
    assert difference(*results[:2]) > 0.01


def test_concurrent_calls(tmp_path, cache):
    """Batches of several sizes take turns on TensorFlow's stream."""
    source, output = saved(tmp_path), str(tmp_path / "converted")
    ios_tf.convert(source, output, **cache)
    function = tf.saved_model.load(output).signatures["serving_default"]
    batches = [images(1 + i % 3, seed=i) for i in range(8)]
    expected = [on_cpu(source, x) for x in batches]

    def call(i: int) -> None:
        for _ in range(30):
            (result,) = function(tf.constant(batches[i])).values()
            assert difference(result.numpy(), expected[i]) < TOLERANCES["float32"]

    in_threads(call, range(len(batches)))


def test_results_on_the_gpu_feed_other_operators(tmp_path, cache):
    """Work that TensorFlow enqueues before and after a region waits for it."""
    source, output = saved(tmp_path), str(tmp_path / "converted")
    ios_tf.convert(source, output, **cache)
    loaded = tf.saved_model.load(output)
    function = loaded.signatures["serving_default"]
    (name,) = function.structured_input_signature[1]

    @tf.function(autograph=False)
    def repeated(x):
        total = tf.zeros([4, 10])
        for k in range(10):
            (y,) = function(**{name: tf.roll(x, k, 0)}).values()
            total += tf.roll(y, -k, 0)
        return total / 10

    x = images(4)
    found = repeated(tf.constant(x)).numpy()
    assert difference(found, on_cpu(source, x)) < TOLERANCES["float32"]


# Arguments: a converted SavedModel.
_LITTLE_MEMORY = """
import sys
import numpy as np
import tensorflow as tf
import ios_tf
(gpu,) = tf.config.list_physical_devices("GPU")[:1]
limit = tf.config.LogicalDeviceConfiguration(memory_limit=512)
tf.config.set_logical_device_configuration(gpu, [limit])
function = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
def call(count):
    (result,) = function(tf.zeros([count, 33, 31, 3])).values()
    return result.numpy()
before = call(2)
try:
    call(40000)
except tf.errors.ResourceExhaustedError as error:
    print("exhausted")
np.testing.assert_array_equal(call(2), before)
print("survived")
"""


def test_out_of_memory_is_an_error_that_is_survived(tmp_path, cache):
    source, output = saved(tmp_path), str(tmp_path / "converted")
    ios_tf.convert(source, output, **cache)
    done = run_python("-c", _LITTLE_MEMORY, output)
    assert "exhausted\nsurvived" in done.stdout
