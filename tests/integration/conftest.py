"""Fixtures for tests that convert models."""

import pytest
import shared

from ios_tf.conversion import timing


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Conversions measure latencies with few calls, because no test asserts them."""
    monkeypatch.setattr(timing, "_ROUNDS", 2)
    monkeypatch.setattr(timing, "_LEAST_BUSY", 2)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> str:
    """The path of an empty schedule cache, which the test uses by default."""
    path = str(tmp_path / "cache")
    monkeypatch.setenv("IOS_TF_CACHE", path)
    return path


@pytest.fixture(scope="session")
def saved() -> str:
    """The SavedModel of a network with branches."""
    return shared.branches()
