"""Fixtures for tests that convert models."""

import pytest

from ios_tf.conversion import timing


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Conversions measure latencies with few calls, because no test asserts them."""
    monkeypatch.setattr(timing, "_ROUNDS", 2)
    monkeypatch.setattr(timing, "_LEAST_BUSY", 2)
