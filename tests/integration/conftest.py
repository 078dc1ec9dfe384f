"""Fixtures of tests that convert."""

import pytest

from ios_tf.conversion import timing


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Conversions end with latencies of a few calls: no test asserts them."""
    monkeypatch.setattr(timing, "_ROUNDS", 2)
    monkeypatch.setattr(timing, "_LEAST_BUSY", 2)
