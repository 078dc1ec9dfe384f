"""Runs a few cases of the chaos command."""

from pathlib import Path

import keras
import pytest
from chaos.cases import Outcome
from commands import run_prepared


@pytest.mark.parametrize(
    ("found", "good"),
    [
        ({}, True),
        ({"leftovers": 1, "growth": 7.0}, True),
        ({"leftovers": 2}, False),
        ({"growth": 9.0}, False),
        ({"wrong": 1}, False),
        ({"lost": 1}, False),
    ],
)
def test_what_is_good(found, good):
    assert Outcome("some", **found).good is good


def test_chaos(tmp_path):
    inputs = keras.Input((8, 8, 3))
    outputs = [
        keras.layers.Conv2D(4, kernel, padding="same")(inputs) for kernel in (1, 3)
    ]
    path = str(tmp_path / "model")
    keras.Model(inputs, outputs).export(path, verbose=False)
    # Other tests cover loads, kills, full disks and corrupt caches.
    arguments = ["--runs=40", "--threads=4", "--cases", "threads"]
    done = run_prepared(Path(__file__).parents[1] / "chaos", path, *arguments)
    header, *rows = [line for line in done.stdout.splitlines() if line]
    assert header.split()[:2] == ["cases", "crashes"]
    assert len(rows) == 1
