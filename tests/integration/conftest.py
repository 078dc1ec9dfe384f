"""Fixtures for tests that convert models."""

import pytest
import shared

from ios_tf.conversion import timing
from ios_tf.cost import cost_model
from ios_tf.native import engine, plugin


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch):
    """Conversions measure latencies with few calls, because no test asserts them."""
    monkeypatch.setattr(timing, "_ROUNDS", 2)
    monkeypatch.setattr(timing, "_LEAST_BUSY", 2)
    monkeypatch.setattr(cost_model, "_MOST_ROUNDS", 7)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> str:
    """The path of an empty schedule cache, which the test uses by default."""
    path = str(tmp_path / "cache")
    monkeypatch.setenv("IOS_TF_CACHE", path)
    return path


@pytest.fixture
def computes_bfloat16(monkeypatch):
    """Regions compute in bfloat16 on every processor. Without it, this is emulated."""
    monkeypatch.setattr(engine, "has_bfloat16", lambda device: True)
    library, has = plugin.runtime(), engine.has_bfloat16("cpu")
    library.ios_tf_set_computes_bfloat16(1)
    yield
    library.ios_tf_set_computes_bfloat16(int(has))


@pytest.fixture(scope="session")
def saved() -> str:
    """The SavedModel of a network with branches."""
    return shared.branches()
