"""Blocks on other frameworks' operators compute the same as on the engine."""

import os
import sys
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_ops import TensorFlowOps

from benchmarks import arrays
from benchmarks.__main__ import main
from benchmarks.experiments.experiment import Record
from benchmarks.frameworks import interpreter
from benchmarks.frameworks.environment_runners import PROGRAM, EnvironmentSession
from benchmarks.frameworks.ops import Sampling, Window, resized
from benchmarks.frameworks.peers import PEERS
from benchmarks.frameworks.runner import Runner, Target
from benchmarks.frameworks.weights import random_weights
from benchmarks.operator_samples import sample_blocks
from ios_tf.callers.frameworks import Model
from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.scheduler import Schedule, Stage, Strategy

_PYTHON = sys.executable  # the fixture `prepared` replaces it
# A variable with the Pythons of peers, such as "mnn=/mnn/bin/python ncnn=/…".
_PYTHONS = "IOS_TF_PEER_PYTHONS"


def _torch(block, weights, inputs):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from benchmarks.frameworks.torch_ops import TorchOps

    return interpreter.compute(TorchOps(channels_last=True), block, weights, inputs)


def _tensorflow(block, weights, inputs):
    return interpreter.compute(TensorFlowOps(), block, weights, inputs)


@pytest.mark.parametrize("compute", [_torch, _tensorflow])
def test_every_operator_computes_what_the_engine_computes(compute):
    for block in sample_blocks():
        random = np.random.default_rng(0)
        weights = random_weights(block, random)
        inputs = [
            random.uniform(-1, 1, shape).astype(np.float32) for shape in block["inputs"]
        ]
        program = engine.Program(
            block,
            Schedule((Stage(Strategy.CONCURRENT, ((0,),)),)).json_object(),
            [w for of_operator in weights for w in of_operator],
        )
        found = compute(block, weights, inputs)
        for output, expected in zip(found, program.run(inputs), strict=True):
            assert output.shape == expected.shape
            np.testing.assert_allclose(
                output,
                expected,
                atol=2e-5 * np.abs(expected).max(),
                err_msg=str(block["operators"]),
            )


def _deep_block(cells: int) -> dict:
    """Cells like NASNet's, which sum the results of convolutions without activation."""
    conv = {"kernel": [1, 1], "filters": 16, "bias": True}
    sepconv = {**conv, "kernel": [5, 5], "padding": "SAME", "pre_activation": "relu"}
    pool = {"type": "pool", "pool": "avg", "kernel": [3, 3], "padding": "SAME"}
    operators = [
        {**conv, "type": "conv2d", "inputs": [-1]},
        {**conv, "type": "conv2d", "inputs": [0]},
    ]
    before, last = 0, 1
    for _ in range(cells):
        first = len(operators)
        operators += [
            {**sepconv, "type": "sepconv", "inputs": [last]},
            {**sepconv, "type": "sepconv", "inputs": [first]},
            {"type": "add", "inputs": [first + 1, last]},
            {**pool, "inputs": [before]},
            {**pool, "inputs": [before]},
            {"type": "add", "inputs": [first + 3, first + 4]},
            {"type": "concat", "inputs": [first + 2, first + 5]},
            {**conv, "type": "conv2d", "inputs": [first + 6]},
        ]
        before, last = last, first + 7
    operators += [
        {"type": "global_pool", "pool": "avg", "inputs": [last]},
        {"type": "matmul", "filters": 10, "bias": True, "inputs": [last + 1]},
        {"type": "softmax", "inputs": [last + 2]},
    ]
    outputs = [last + 2, last + 3]
    inputs = [[1, 7, 7, 8]]
    return {"version": 1, "inputs": inputs, "operators": operators, "outputs": outputs}


def test_deep_networks_tell_right_from_wrong():
    block = _deep_block(cells=40)
    weights = random_weights(block, np.random.default_rng(0))
    image = np.random.default_rng(1).uniform(-1, 1, (1, 7, 7, 8)).astype(np.float32)
    count = len(block["operators"])
    stages = (Stage(Strategy.CONCURRENT, ((i,),)) for i in range(count))
    schedule = Schedule(tuple(stages)).json_object()

    def run() -> list[np.ndarray]:
        flat = [w for of_operator in weights for w in of_operator]
        return engine.Program(block, schedule, flat).run([image])

    logits, probabilities = run()
    assert np.isfinite(logits).all() and 0.1 < logits.std() < 10
    assert probabilities.max() < 0.99  # not saturated
    weights[0][0][0, 0, 2, 3] *= -1  # one weight of the first convolution
    assert np.abs(run()[1] - probabilities).max() > 1e-3 * probabilities.max()


def test_weights_keep_the_magnitude():
    cells = {"kernel": [3, 3], "padding": "SAME", "bias": True, "inputs": [-1]}
    for operator in (
        {**cells, "type": "conv2d", "filters": 64},
        {**cells, "type": "conv2d", "filters": 64, "groups": 4, "dilations": [2, 2]},
        {**cells, "type": "sepconv", "filters": 64, "pre_activation": "relu"},
        {"type": "scale", "inputs": [-1]},
    ):
        block = {"version": 1, "inputs": [[4, 5, 5, 64]], "outputs": [0]}
        block["operators"] = [operator]
        random = np.random.default_rng(0)
        weights = random_weights(block, random)
        again = random_weights(block, np.random.default_rng(0))
        for found, expected in zip(weights[0], again[0], strict=True):
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, expected)
        image = random.uniform(-1, 1, (4, 5, 5, 64)).astype(np.float32)
        schedule = Schedule((Stage(Strategy.CONCURRENT, ((0,),)),)).json_object()
        (output,) = engine.Program(block, schedule, weights[0]).run([image])
        assert 0.8 < np.square(output).mean() < 1.25, operator


def test_new_activations_are_found_by_name():
    """A framework's operators of the same name need no entry of their own."""
    np.testing.assert_allclose(TensorFlowOps().activate("cosh", 1.0), np.cosh(1.0))
    with pytest.raises(AttributeError, match="activation 'no_function'"):
        TensorFlowOps().activate("no_function", 1.0)


class _ShufflingOps(TensorFlowOps):
    def channel_shuffle(self, call):
        *image, channels = call.input_shape
        groups = call.get("groups", 1)
        x = tf.reshape(call.read[0], [*image, groups, channels // groups])
        return tf.reshape(tf.linalg.matrix_transpose(x), [*image, channels])


def test_operators_of_one_framework_only():
    """A new operator is a method; frameworks without the method are not compared."""
    block = {"version": 1, "inputs": [[1, 2, 2, 6]], "outputs": [0]}
    block["operators"] = [{"type": "channel_shuffle", "groups": 3, "inputs": [-1]}]
    image = np.random.default_rng(0).normal(size=(1, 2, 2, 6)).astype(np.float32)
    (found,) = interpreter.compute(_ShufflingOps(), block, [[]], [image])
    schedule = Schedule((Stage(Strategy.CONCURRENT, ((0,),)),)).json_object()
    (expected,) = engine.Program(block, schedule, []).run([image])
    np.testing.assert_array_equal(found, expected)
    for kind in ("channel_shuffle", "normalize"):
        block["operators"][0]["type"] = kind
        with pytest.raises(UserError, match=f"not support .* {kind!r}"):
            interpreter.compute(TensorFlowOps(), block, [[]], [image])


def _exported(path):
    image = keras.Input((9, 9, 3))
    y = keras.layers.Conv2D(4, 3, activation="relu")(image)
    outputs = {"maps": y, "means": keras.layers.GlobalAveragePooling2D()(y)}
    keras.Model(image, outputs).export(path, verbose=False)
    return str(path)


def _rows(directory, *words):
    """Runs the benchmark; returns the rows of the network."""
    words = [_exported(directory / "model"), "--rounds=2", *words]
    assert main(["frameworks", *words, f"--output={directory}"]) == 0
    record = Record.read(directory / "frameworks.json")
    (rows,) = record.results["networks"].values()
    return rows


@pytest.mark.usefixtures("prepared")
def test_peers_that_run_the_saved_model(tmp_path):
    peers = ["ios_sequential", "tensorflow", "tensorflow_xla", "litert"]
    peers += ["onnxruntime", "onnxruntime_parallel", "openvino"]
    peers += ["openvino_as_installed", "mnn", "zentf"]
    rows = _rows(
        tmp_path,
        f"--peers={','.join(peers)}",
        "--batch_size=2",
        f"--peer_python=mnn={_PYTHON}",
    )
    for peer in peers:
        if PEERS[peer].missing():
            assert rows[peer]["note"] == f"not installed: {PEERS[peer].missing()}"
        elif peer == "mnn":
            why = "failed: ModuleNotFoundError: No module named 'MNN'"
            assert rows[peer]["note"] == why
        elif peer == "zentf":
            assert rows[peer]["note"] == "needs --peer_python=zentf=PYTHON"
        else:
            limit = 3e-2 if PEERS[peer].as_installed else 1e-5
            assert rows[peer]["samples"] == 2 and rows[peer]["difference"] < limit


@pytest.mark.parametrize("name", ["mnn", "ncnn", "zentf"])
@pytest.mark.usefixtures("prepared")
def test_peers_in_their_own_environments(name, tmp_path):
    pythons = dict(x.split("=") for x in os.environ.get(_PYTHONS, "").split())
    if name not in pythons:
        pytest.skip(f"{_PYTHONS} does not contain {name}=PYTHON")
    peers = [key for key, peer in PEERS.items() if peer.environment == name]
    rows = _rows(
        tmp_path,
        f"--peers={','.join(['tensorflow', *peers])}",
        f"--peer_python={name}={pythons[name]}",
    )
    for peer in peers:
        limit = 1e-2 if PEERS[peer].as_installed else 1e-5
        assert rows[peer]["samples"] == 2 and rows[peer]["difference"] < limit
        assert name in map(str.lower, rows[peer]["versions"])


_DOUBLING = (
    PROGRAM
    + """
from ios_tf.callers.frameworks import Caller, SeparateSession

class Doubling(SeparateSession):
    def new_caller(self):
        print("loaded")  # must not become an answer

        def outputs():
            return {"y": 2 * self.inputs["x"]}

        return Caller(outputs, outputs)

class Failing(SeparateSession):
    def new_caller(self):
        raise ValueError("the model\\nis wrong")

main({"doubling": (Doubling, ["numpy"]), "failing": (Failing, [])})
"""
)


def test_sessions_in_another_python(tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "inputs.npz", x=x)
    model = Model("", str(tmp_path / "inputs.npz"), ["y"], "", None, 2)
    command = [sys.executable, "-I", "-c", _DOUBLING]
    session = EnvironmentSession(model, command, "doubling")
    (caller,) = session.callers(1)
    np.testing.assert_array_equal(caller.outputs()["y"], 2 * x)
    assert session.time(3) > 0
    session.wait_until_idle()
    assert session.versions == {"numpy": np.__version__}
    session.close()
    with pytest.raises(UserError, match=r"^ValueError: the model is wrong$"):
        EnvironmentSession(model, command, "failing")


def test_wrong_environments(capsys):
    for words, why in (("torch=python", "'torch' is not"), ("mnn=/no", "'/no' is not")):
        assert main(["frameworks", f"--peer_python={words}"]) == 2
        assert why in capsys.readouterr().err


def test_windows_count_the_cells_they_cover():
    window = Window((3, 2), (2, 1), padding=(1, 0, 0, 1), image=(4, 3), output=(2, 3))
    # By hand: rows -1..1 and 1..3 of 4, columns 0..1, 1..2 and 2..3 of 3.
    np.testing.assert_array_equal(window.cells(), [[4, 4, 2], [6, 6, 3]])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_number_formats(dtype):
    values = np.array([0.0, 1.0, -2.5, 3.1415927, 1e-3], np.float32)
    found = arrays.rounded(values, dtype)
    digits = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    np.testing.assert_allclose(found, values, rtol=2.0**-digits)
    np.testing.assert_array_equal(arrays.rounded(found, dtype), found)


def test_aligned_arrays():
    values = np.arange(35, dtype=np.float32).reshape(5, 7)
    found = arrays.aligned(values)
    assert found.ctypes.data % 64 == 0 and found.flags.c_contiguous
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("coordinates", ["asymmetric", "half_pixel", "align_corners"])
def test_resizing_by_indices(interpolation, coordinates):
    """Frameworks whose resize operator differs from TensorFlow's use indices."""
    image = np.random.default_rng(0).normal(size=(2, 5, 7, 3)).astype(np.float32)
    for output in [(11, 4), (1, 21), (5, 7)]:
        sampling = Sampling(interpolation, coordinates, (5, 7), output)
        ops = TensorFlowOps()
        np.testing.assert_allclose(
            resized(image, sampling, np.take, np.asarray, 1),
            ops.array(ops.resize(ops.tensor(image), sampling)),
            atol=1e-5,
        )


class _Restless(Runner):
    """Leaves a thread that keeps working for a while, as some thread pools do."""

    def __init__(self):
        self.working: list[threading.Thread] = []

    def run(self):
        self.working = [threading.Thread(target=_work_on)]
        self.working[0].start()

    def outputs(self):
        return []


def _work_on():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize(
    ("device", "platform", "ordinal", "tf32"),
    [
        ("cpu", "cpu", 0, True),
        ("gpu", "cuda", 0, True),
        ("gpu:1", "cuda", 1, True),
        ("gpu:12,tf32=off", "cuda", 12, False),
    ],
)
def test_devices_as_others_call_them(device, platform, ordinal, tf32):
    """PyTorch and ONNX Runtime accept "cuda", but not "gpu"."""
    target = Target(device)
    assert (target.platform, target.ordinal, target.tf32) == (platform, ordinal, tf32)


def test_who_is_measured_next_has_the_cores():
    runner = _Restless()
    runner.time(calls=1)
    assert not runner.working[0].is_alive()
