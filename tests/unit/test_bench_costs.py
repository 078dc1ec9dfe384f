"""The benchmark of what users wait for: cases are measured, and say what failed."""

import pytest
from native_build import ROOT

from ios_tf.bench import costs
from ios_tf.errors import UserError


def test_a_case_takes_seconds_and_memory():
    seconds, megabytes = costs.run(costs.Case("-c pass", 1))
    assert seconds > 0
    assert megabytes > 1


def test_a_case_that_fails_is_one_line():
    with pytest.raises(UserError, match=r"-m no\.such: .*No module named 'no'"):
        costs.run(costs.Case("-m no.such", 1))


def test_the_sources_are_what_compiles(tmp_path):
    costs.copy_sources(ROOT, tmp_path / "sources")
    assert (tmp_path / "sources" / "cc" / "core" / "ir" / "block.cc").exists()
    assert not (tmp_path / "sources" / "ios_tf" / "lib").exists()
    with pytest.raises(UserError, match="run this in a checkout"):
        costs.copy_sources(tmp_path, tmp_path / "others")
