"""The benchmark of loading: every variant is loaded and called."""

import keras
import pytest
from keras import layers

from benchmarks.costs import measure_loading


@pytest.mark.usefixtures("prepared")
def test_every_variant_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "cache"))
    inputs = keras.Input((8, 8, 3))
    branches = [layers.Conv2D(4, k, padding="same")(inputs) for k in (1, 3)]
    model = keras.Model(inputs, layers.Concatenate()(branches))
    model.export(tmp_path / "model", verbose=False)
    found = measure_loading(str(tmp_path / "model"), rounds=1)
    assert list(found) == ["TensorFlow", "converted, TensorFlow", "converted, plugin"]
    for loading in found.values():
        assert min(loading.load, loading.first, loading.second) > 0
        assert 0 < loading.resident <= loading.peak
