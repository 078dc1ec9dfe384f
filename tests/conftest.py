"""What all tests share."""

import os

import pytest

# Before TensorFlow is imported: what it logs is no output of ours.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


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
    import gc

    import cuda_driver

    driver = cuda_driver.Driver(cuda.directory)
    driver.fake = cuda
    lasting = {"module", "cudnn handle"}
    with driver.context():
        before = cuda.report()["live"]
        yield driver
        gc.collect()  # programs
        driver("cuCtxSynchronize")
        after = cuda.report()["live"]
        for kind in {*before, *after} - lasting:
            assert after.get(kind, 0) == before.get(kind, 0), f"leaked: {kind}"
