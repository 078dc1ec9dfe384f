"""Settings and fixtures that tests share."""

import gc
import os
import shutil
import tempfile

import pytest
import shared

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

    What lives as long as the process - kernels and cuDNN handles - may be made.
    """
    import cuda_driver

    driver = cuda_driver.Driver(cuda.directory)
    driver.fake = cuda
    lasting = {"module", "cudnn handle"}
    gc.freeze()  # TensorFlow's and Keras's objects, which take long to look through
    with driver.context():
        before = cuda.report()["live"]
        yield driver
        gc.collect()  # programs
        gc.unfreeze()
        driver("cuCtxSynchronize")
        after = cuda.report()["live"]
        for kind in {*before, *after} - lasting:
            assert after.get(kind, 0) == before.get(kind, 0), f"leaked: {kind}"
