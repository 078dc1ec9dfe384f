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
