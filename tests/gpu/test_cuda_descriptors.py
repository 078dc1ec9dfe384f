"""The fake cuDNN finalizes a descriptor only if it has all attributes that the real
cuDNN requires. test_real_cudnn.py compares these attributes with the real cuDNN."""

import descriptors
import pytest

pytestmark = pytest.mark.one_core


@pytest.fixture
def cudnn(gpu):
    return descriptors.Cudnn(gpu.fake.directory / "libcudnn.so.9")


def test_complete_descriptors(cuda, cudnn):
    found = cudnn.statuses()
    assert list(found) == list(descriptors.DESCRIPTORS)
    assert set(found.values()) == {descriptors.SUCCESS}
    assert cuda.take_violations() == []


@pytest.mark.parametrize("name", sorted(descriptors.OPTIONAL))
def test_optional_attributes(cuda, cudnn, name):
    assert set(cudnn.statuses(without=name).values()) == {descriptors.SUCCESS}
    assert cuda.take_violations() == []


@pytest.mark.parametrize("name", sorted(descriptors.REQUIRED))
def test_required_attributes(cuda, cudnn, name):
    *others, last = cudnn.statuses(without=name).items()
    assert {status for _, status in others} <= {descriptors.SUCCESS}
    incomplete, status = last
    assert status in descriptors.BAD_PARAMETER
    assert name in descriptors.DESCRIPTORS[incomplete][1]
    assert cuda.take_violations() == [
        f"attribute {descriptors.number(name)} is not set"
    ]
