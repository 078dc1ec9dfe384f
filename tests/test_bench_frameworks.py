"""Blocks on other frameworks' operators: all compute what the engine computes."""

import numpy as np
import pytest

from ios_tf import engine
from ios_tf.bench import arrays
from ios_tf.bench.checks import sample_blocks
from ios_tf.bench.frameworks import interpreter
from ios_tf.bench.network_search import schedule_json
from ios_tf.scheduler import Stage, Strategy


def _torch(block, weights, inputs):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from ios_tf.bench.frameworks.torch_ops import TorchOps

    return interpreter.compute(TorchOps(channels_last=True), block, weights, inputs)


def _jax(block, weights, inputs):
    pytest.importorskip("jax", reason="JAX is not installed")
    from ios_tf.bench.frameworks.jax_ops import JaxOps

    return interpreter.compute(JaxOps(), block, weights, inputs)


def _tensorflow(block, weights, inputs):
    from ios_tf.bench.frameworks.tensorflow_ops import TensorFlowOps

    return interpreter.compute(TensorFlowOps(), block, weights, inputs)


def _onnx(block, weights, inputs):
    pytest.importorskip("onnx", reason="onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    from ios_tf.bench.frameworks.onnx_ops import OnnxOps, model_of

    model = model_of(block, weights, "float32")
    session = runtime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ops = OnnxOps()
    feed = {f"input{i}": ops.tensor(x) for i, x in enumerate(inputs)}
    return [ops.array(y) for y in session.run(None, feed)]


@pytest.mark.parametrize("compute", [_torch, _jax, _tensorflow, _onnx])
def test_every_operator_computes_what_the_engine_computes(compute):
    for block in sample_blocks():
        random = np.random.default_rng(0)
        weights = interpreter.random_weights(block, random)
        inputs = [
            random.uniform(-1, 1, shape).astype(np.float32) for shape in block["inputs"]
        ]
        program = engine.Program(
            block,
            schedule_json([Stage(Strategy.CONCURRENT, ((0,),))]),
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


def test_windows_count_the_cells_they_cover():
    window = interpreter.Window(
        (3, 2), (2, 1), padding=(1, 0, 0, 1), image=(4, 3), output=(2, 3)
    )
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
