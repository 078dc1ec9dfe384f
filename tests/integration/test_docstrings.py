"""The examples in the docstrings of the public functions and classes run."""

import doctest
import json

import networks
import numpy as np
import pytest
import tensorflow as tf
from cache_helpers import undoing_enable

import ios_tf

NAMES = [name for name in ios_tf.__all__ if name[0].islower()]
NAMES += ["OptimizedFunction", "Report", "UserError"]


@pytest.fixture(scope="module")
def model():
    return networks.branches()


@pytest.mark.parametrize("name", NAMES)
def test_examples(name, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # All examples use one cache of schedules.
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path.parent / "cache"))
    names = {
        "images": np.random.default_rng(0).random((8, 17, 17, 3), np.float32),
        "ios_tf": ios_tf,
        "json": json,
        "model": model,
        "tf": tf,
    }
    public = getattr(ios_tf, name)
    # The functions have wrappers from other modules, which doctest would leave out.
    finder = doctest.DocTestFinder(recurse=isinstance(public, type))
    tests = [one for one in finder.find(public, name, False, names) if one.examples]
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    lines = []
    with undoing_enable():
        for test in tests:
            runner.run(test, out=lines.append)
    assert not runner.failures, "".join(lines)
    assert tests or name in ("disable", "status")  # enable's example calls these
