"""Renamed options: each old name gives an error that names the new one."""

from __future__ import annotations

import pytest
from commands import run_python

import ios_tf
from ios_tf.errors import UserError


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"units": ["a"]}, "group_patterns"),
        ({"borders": ["a"]}, "block_end_patterns"),
        ({"warmup": 1}, "warmup_runs"),
        ({"number": 1}, "runs"),
        ({"repeat": 1}, "sample_count"),
        ({"say": print}, "log"),
        ({"strategy": "both"}, "'auto'"),
    ],
)
def test_arguments(old, new, tmp_path):
    for call in (
        lambda: ios_tf.convert("keras:MobileNet", tmp_path / "out", **old),
        lambda: ios_tf.optimize(None, **old),
    ):
        with pytest.raises(UserError, match=f"is now called {new}"):
            call()
    assert not (tmp_path / "out").exists()


def test_on_miss():
    with pytest.raises(
        UserError, match="the value 'pass' of on_miss is now called 'skip'"
    ):
        ios_tf.enable(on_miss="pass")


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--unit=a", "--unit is now called --group"),
        ("--border=a", "--border is now called --block_end"),
        ("--number=1", "--number is now called --runs"),
        ("--repeat=1", "--repeat is now called --sample_count"),
        ("--strategy=both", "the value 'both' of strategy is now called 'auto'"),
    ],
)
def test_flags(flag, said, tmp_path):
    words = ["convert", "keras:MobileNet", tmp_path / "out", flag]
    (line,) = run_python("-m", "ios_tf", *words, status=2).stderr.splitlines()
    assert said in line
