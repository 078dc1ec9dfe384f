"""Converted models called from many threads give equal bits without a memory leak."""

import keras
import pytest
import shared
import tensorflow as tf

from benchmarks.concurrency import bench_concurrency, hammer

# Eight shapes stay compiled: with ten, threads compile, use and evict concurrently.
FEW, MANY = (1, 2, 3), tuple(range(1, 11))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("IOS_TF_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(("batch_sizes", "runs"), [(FEW, 2000), (MANY, 400)])
def test_many_threads_get_the_bits_of_one(batch_sizes, runs):
    loaded = tf.saved_model.load(shared.converted_cells())
    function = loaded.signatures["serving_default"]
    result = hammer(function, batch_sizes, threads=24, runs=runs)
    assert result.differing == 0
    # Leaking one arena or one output per run would add over 100 MiB.
    assert result.growth < 50


def test_a_call_that_fails_is_an_error():
    def call(**inputs):
        raise ValueError("no")

    call.structured_input_signature = ((), {})
    with pytest.raises(ValueError, match="no"):
        hammer(call, [1], threads=2, runs=4)


def test_comparison_with_stock_tensorflow(tmp_path):
    inputs = keras.Input((8, 8, 3))
    outputs = [
        keras.layers.Conv2D(4, kernel, padding="same")(inputs) for kernel in (1, 3)
    ]
    keras.Model(inputs, outputs).export(tmp_path / "model", verbose=False)
    engine, stock = bench_concurrency(
        str(tmp_path / "model"), batch_sizes=(1, 2), threads=4, runs=40
    )
    assert (engine.runs, stock.runs) == (40, 40)
    assert engine.differing == 0
    assert 0 < engine.loaded <= engine.settled <= engine.peak
