"""The benchmark of frameworks on the fake GPU: equal results, and ordered accesses."""

import bench_helpers
import numpy as np
import pytest

from benchmarks.frameworks.ios_runner import IosRunner
from benchmarks.frameworks.runner import Target

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
