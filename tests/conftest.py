"""Settings and fixtures that tests share."""

import contextlib
import dataclasses
import gc
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import prepared_python
import pytest
import shared

# The benchmarks are not installed. The checkout is last: its ios_tf may be unbuilt.
sys.path.append(str(Path(__file__).resolve().parents[1]))
# TensorFlow reads this variable when it is imported. Its log messages would otherwise
# appear in the output that tests check.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def pytest_configure(config):
    # The workers of xdist and the processes that tests start inherit this variable from
    # the first process.
    if shared.DIRECTORY not in os.environ:
        config.ios_tf_shared = tempfile.mkdtemp(prefix="ios_tf_tests_")
        os.environ[shared.DIRECTORY] = config.ios_tf_shared


def pytest_unconfigure(config):
    if hasattr(config, "ios_tf_shared"):
        shutil.rmtree(config.ios_tf_shared, ignore_errors=True)
        del os.environ[shared.DIRECTORY]


@pytest.fixture
def prepared(monkeypatch):
    """Makes the tested code start processes that have already imported TensorFlow."""
    monkeypatch.setattr(sys, "executable", prepared_python.path())


@pytest.fixture
def calm_machine(monkeypatch):
    """Makes all measurements count as undisturbed, even if other processes run."""
    from ios_tf.cost.measured import MeasuredCostModel

    run = MeasuredCostModel._run

    def undisturbed(*arguments):
        samples = run(*arguments)
        return [dataclasses.replace(sample, disturbed=False) for sample in samples]

    monkeypatch.setattr(MeasuredCostModel, "_run", undisturbed)


@pytest.fixture(autouse=True, scope="module")
def _frozen():
    """Hides all objects that exist before a test module from the garbage collector.

    TensorFlow, Keras and the tests are a million objects. Without this fixture, each
    collection by a test or a conversion would look through these objects.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _cores(request):
    """Runs a test module marked `one_core` on one core. Each worker uses another core.

    Threads that compute a small operator together wake each other very often. While
    other workers use the cores, this takes longer than computing the operator.
    """
    if request.node.get_closest_marker("one_core") is None:
        yield
        return
    allowed = sorted(os.sched_getaffinity(0))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    _run_on([allowed[worker % len(allowed)]])
    yield
    _run_on(allowed)
    _let_engine_notice(len(allowed))


def _run_on(cores):
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(ProcessLookupError):  # the thread has just ended
            os.sched_setaffinity(int(thread), cores)


def _let_engine_notice(cores):
    """Runs the engine until it has noticed that it now has this many cores.

    The engine checks the number of its cores only from time to time. The number is part
    of the device's name.
    """
    engine = sys.modules.get("ios_tf.native.engine")
    if engine is None:
        return
    block = {
        "version": 1,
        "inputs": [[1, 1]],
        "operators": [{"type": "activation", "activation": "relu", "inputs": [-1]}],
        "outputs": [0],
    }
    stages = [{"strategy": "concurrent", "groups": [[0]]}]
    program = engine.Program(block, {"version": 1, "stages": stages}, [])
    end = time.monotonic() + 1  # with a CPU quota, it may never have this many
    while f" {cores} cores" not in engine.device_fingerprint("cpu"):
        program.run([np.ones((1, 1), np.float32)])
        if time.monotonic() > end:
            return


@pytest.fixture
def cuda():
    """The fake GPU. A test fails if it leaves violations behind."""
    import cuda_helpers

    fake = cuda_helpers.fake_cuda()
    fake.reset()
    yield fake
    assert fake.take_violations() == []
    fake.reset()


@pytest.fixture
def gpu(cuda):
    """The fake GPU's driver, in its context. A test fails if it does not free a handle.

    Kernels, cuDNN handles and each device's stream for uploads exist until the process
    ends.
    """
    import cuda_driver

    from ios_tf.native import engine

    driver = cuda_driver.Driver(cuda.directory)
    driver.fake = cuda
    lasting = {"module", "cudnn handle"}
    cuda.set(devices=2)
    for device in ("gpu", "gpu:1"):
        engine.device_fingerprint(device)  # creates the device
    cuda.reset()
    gc.collect()  # frees the programs of earlier tests
    with driver.context():
        before = cuda.report()["live"]
        yield driver
        gc.collect()  # frees the programs of the test
        driver("cuCtxSynchronize")
        after = cuda.report()["live"]
        for kind in {*before, *after} - lasting:
            assert after.get(kind, 0) == before.get(kind, 0), f"leaked: {kind}"
