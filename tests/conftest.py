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
# Before TensorFlow is imported: what it logs is no output of ours.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def pytest_configure(config):
    # xdist's workers, and what tests start, inherit it from the first process.
    if shared.DIRECTORY not in os.environ:
        config.ios_tf_shared = tempfile.mkdtemp(prefix="ios_tf_tests_")
        os.environ[shared.DIRECTORY] = config.ios_tf_shared


def pytest_unconfigure(config):
    if hasattr(config, "ios_tf_shared"):
        shutil.rmtree(config.ios_tf_shared, ignore_errors=True)
        del os.environ[shared.DIRECTORY]


@pytest.fixture
def prepared(monkeypatch):
    """Processes that the tested code starts have imported TensorFlow."""
    monkeypatch.setattr(sys, "executable", prepared_python.path())


@pytest.fixture
def calm_machine(monkeypatch):
    """Measurements count as undisturbed, whatever runs beside the tests."""
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
    """One core for a test module marked `one_core`, each worker another.

    Threads that share one small operator wake each other all the time, and beside
    other workers that takes longer than the operator.
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
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread), cores)


def _let_engine_notice(cores):
    """The engine looks at its cores now and then when it runs; they name its device."""
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
    end = time.monotonic() + 1  # a quota may leave it fewer
    while f" {cores} cores" not in engine.device_fingerprint("cpu"):
        program.run([np.ones((1, 1), np.float32)])
        if time.monotonic() > end:
            return


@pytest.fixture
def cuda():
    """The fake GPU; a test that leaves violations behind fails."""
    import cuda_helpers

    fake = cuda_helpers.fake_cuda()
    fake.reset()
    yield fake
    assert fake.take_violations() == []
    fake.reset()


@pytest.fixture
def gpu(cuda):
    """The fake GPU's driver, in its context; a test that leaves handles fails.

    Kernels and cuDNN handles live as long as the process, and so does each device's
    stream for uploads.
    """
    import cuda_driver

    from ios_tf.native import engine

    driver = cuda_driver.Driver(cuda.directory)
    driver.fake = cuda
    lasting = {"module", "cudnn handle"}
    cuda.set(devices=2)
    for device in ("gpu", "gpu:1"):
        engine.device_fingerprint(device)  # makes the device
    cuda.reset()
    gc.collect()  # programs of earlier tests
    with driver.context():
        before = cuda.report()["live"]
        yield driver
        gc.collect()  # programs
        driver("cuCtxSynchronize")
        after = cuda.report()["live"]
        for kind in {*before, *after} - lasting:
            assert after.get(kind, 0) == before.get(kind, 0), f"leaked: {kind}"
