"""The benchmark of frameworks on the fake GPU: equal results, and ordered accesses.

TensorRT needs a real GPU, so only its options are checked."""

import bench_helpers
import numpy as np
import pytest
from commands import run_prepared

from benchmarks import checks
from benchmarks.frameworks.ios_runner import IosRunner
from benchmarks.frameworks.runner import Target
from benchmarks.frameworks.saved_model_runners import (
    XLA_CONCURRENT_GRAPHS,
    configure_tensorrt,
)

pytestmark = pytest.mark.one_core


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_engine_as_a_peer(cuda, dtype):
    network = bench_helpers.tiny_network()
    runner = IosRunner(network, Target("gpu,tf32=off", dtype), "greedy")
    runner.run()
    expected = IosRunner(network, Target(), "sequential")
    expected.run()
    tolerance = {"float32": 1e-4, "float16": 1e-2}[dtype]
    for found, truth in zip(runner.outputs(), expected.outputs(), strict=True):
        assert found.shape == truth.shape
        assert np.abs(found - truth).max() <= tolerance * np.abs(truth).max()
    assert runner.time(2) >= 0 and runner.calls() >= 1


def test_only_fused_activations_may_lose_nan(cuda):
    found = checks.check_nan("gpu,tf32=off", "float32")
    assert [check for check in found if not check.passed] == []
    lost = [check for check in found if check.difference > 0]
    assert lost and all("relu" in check.what for check in lost)
    assert all(check.what.startswith("NaN in conv2d") for check in lost)


class BuilderConfig:
    """The members of tensorrt.IBuilderConfig that the benchmark uses."""

    __slots__ = ("builder_optimization_level", "flags", "max_aux_streams")

    def __init__(self) -> None:
        self.flags = {"TF32"}  # TensorRT's default

    def clear_flag(self, flag: str) -> None:
        self.flags.remove(flag)


@pytest.mark.parametrize("tf32", [True, False])
def test_tensorrt_optimizes_as_much_as_it_can(tf32):
    config = BuilderConfig()
    configure_tensorrt(config, "TF32", Target("gpu" if tf32 else "gpu,tf32=off"))
    assert config.builder_optimization_level == 5  # the highest level
    assert config.max_aux_streams == 7  # and the caller's stream: 8 lanes
    assert config.flags == ({"TF32"} if tf32 else set())


# XLA reads its flags when it compiles for the first time.
COMPILE_WITH_XLA = """
import os, sys
import tensorflow as tf
os.environ |= {"XLA_FLAGS": sys.argv[1], "CUDA_VISIBLE_DEVICES": "-1"}
assert tf.function(lambda x: x + x, jit_compile=True)(tf.ones([])).numpy() == 2
"""


def test_xla_knows_the_flag_for_concurrent_graphs():
    """XLA ends a process that has an unknown flag."""
    for flags, code in ((XLA_CONCURRENT_GRAPHS, 0), (XLA_CONCURRENT_GRAPHS + "LY", 1)):
        done = run_prepared("-c", COMPILE_WITH_XLA, flags, status=None)
        assert bool(done.returncode) == code, done.stderr
