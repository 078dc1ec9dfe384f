"""The benchmark of merged convolutions on stock TensorFlow: equal results, all rows."""

import json
import os
import subprocess

import keras
from keras import layers

from benchmarks import command_line

ROWS = ["TensorFlow", "frozen", "merged, equal kernels", "merged, all", "converted"]


def test_every_form_computes_the_same(tmp_path):
    inputs = keras.Input((16, 16, 3))
    branches = [layers.Conv2D(4, k, padding="same")(inputs) for k in (1, 1, 3)]
    model = keras.Model(inputs, layers.Concatenate()(branches))
    model.export(tmp_path / "model", verbose=False)
    # The benchmark switches the plugin off, so it needs its own process.
    subprocess.run(
        command_line("stock", str(tmp_path / "model"))
        + ["--rounds=1", f"--json={tmp_path / 'result.json'}"],
        env={**os.environ, "IOS_TF_CACHE": str(tmp_path / "cache")},
        check=True,
    )
    variants = json.loads((tmp_path / "result.json").read_text())["variants"]
    assert [variant["name"] for variant in variants] == ROWS
    for variant in variants:
        assert variant["difference"] < 1e-5
        assert variant["median_ms"] > 0
