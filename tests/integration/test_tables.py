"""Large variables that no operator contains, such as embeddings: they stay variables,
are written once, and are not copied during conversion."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from commands import run_prepared

import ios_tf

ROWS, COLUMNS = 40_000, 640  # 98 MiB
MIB = 1 << 20

random = np.random.default_rng(0)


class Recommender(tf.Module):
    """Compares an image with some rows of a table."""

    def __init__(
        self,
        look_up: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = tf.gather,
        rows: int = 400,
    ) -> None:
        super().__init__()
        self.table = tf.Variable(random.normal(size=(rows, COLUMNS)), dtype=tf.float32)
        self.filters = tf.Variable(random.normal(size=(3, 3, 3, 32)), dtype=tf.float32)
        self.dense = tf.Variable(random.normal(size=(32, COLUMNS)), dtype=tf.float32)
        self.look_up = look_up

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.int32, "row"),
            tf.TensorSpec([None, 24, 24, 3], tf.float32, "image"),
        ]
    )
    def rate(self, row: tf.Tensor, image: tf.Tensor) -> dict[str, tf.Tensor]:
        maps = tf.nn.relu(tf.nn.conv2d(image, self.filters, 1, "SAME"))
        features = tf.matmul(tf.reduce_mean(maps, [1, 2]), self.dense)
        rows = self.look_up(self.table, row % 400)
        return {"rating": tf.reduce_sum(rows * features, -1)}


LOOK_UPS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "gather": tf.gather,
    "gather_nd": lambda table, row: tf.gather_nd(table, row[:, None]),
    "embedding": tf.nn.embedding_lookup,
    "scaled": lambda table, row: tf.gather(table * 0.5, row),
    "as a value": lambda table, row: tf.gather(tf.identity(table), row, axis=0),
}


def arguments(batch: int) -> dict[str, tf.Tensor]:
    image = random.random((batch, 24, 24, 3)).astype(np.float32)
    return {"row": tf.range(5, 5 + batch), "image": tf.constant(image)}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_tables_stay_variables(name: str, tmp_path: Path) -> None:
    module = Recommender(LOOK_UPS[name])
    source, target = str(tmp_path / "original"), str(tmp_path / "converted")
    tf.saved_model.save(module, source, signatures=module.rate)
    report = ios_tf.convert(source, target, strategy="greedy")
    assert report.operators > 0
    shapes = [
        shape for _, shape in tf.train.list_variables(f"{target}/variables/variables")
    ]
    assert shapes.count(list(module.table.shape)) == 1
    written = tf.saved_model.load(target).signatures["serving_default"]
    for batch in (1, 3):
        inputs = arguments(batch)
        expected = module.rate(**inputs)["rating"]
        np.testing.assert_allclose(written(**inputs)["rating"], expected, 1e-4, 1e-4)


@pytest.mark.parametrize("length", [64, None])
@pytest.mark.parametrize("name", ["gather", "embedding", "scaled", "as a value"])
def test_convolutions_of_looked_up_rows(
    name: str, length: int | None, tmp_path: Path
) -> None:
    """The table's variable determines the number of channels for any text."""
    module = tf.Module()
    module.table = tf.Variable(random.normal(size=(5000, 128)), dtype=tf.float32)
    module.filters = tf.Variable(random.normal(size=(3, 128, 32)), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, length], tf.int32, "text")])
    def features(text: tf.Tensor) -> tf.Tensor:
        words = LOOK_UPS[name](module.table, text)
        return tf.reduce_max(tf.nn.relu(tf.nn.conv1d(words, module.filters, 1, "SAME")))

    source, target = str(tmp_path / "original"), str(tmp_path / "converted")
    tf.saved_model.save(module, source, signatures=features)
    report = ios_tf.convert(source, target, strategy="greedy", keep_slower=True)
    assert report.operators > 0
    written = tf.saved_model.load(target).signatures["serving_default"]
    for words in (64, length or 17):
        text = tf.constant(random.integers(0, 5000, (2, words)), tf.int32)
        (found,) = written(text=text).values()
        np.testing.assert_allclose(found, features(text), 1e-4, 1e-4)


def test_the_image_width_is_the_length_of_a_text(tmp_path: Path) -> None:
    """A window of 5 words does not fit into a text of the image's height, 1."""
    module = tf.Module()
    module.table = tf.Variable(random.normal(size=(300, 64)), dtype=tf.float32)
    module.filters = tf.Variable(random.normal(size=(5, 64, 8)), dtype=tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, "text")])
    def features(text: tf.Tensor) -> tf.Tensor:
        words = tf.gather(module.table, text)
        return tf.nn.relu(tf.nn.conv1d(words, module.filters, 1, "VALID"))

    source, target = str(tmp_path / "original"), str(tmp_path / "converted")
    tf.saved_model.save(module, source, signatures=features)
    report = ios_tf.convert(
        source, target, strategy="greedy", keep_slower=True, image_size=(1, 32)
    )
    assert report.operators > 0
    written = tf.saved_model.load(target).signatures["serving_default"]
    text = tf.constant(random.integers(0, 300, (2, 19)), tf.int32)
    (found,) = written(text=text).values()
    np.testing.assert_allclose(found, features(text), 1e-4, 1e-4)


def test_a_large_table_is_in_memory_twice_at_most(tmp_path: Path) -> None:
    """The table is in the original and in the result, but not in each graph."""
    peaks = []
    for rows in (400, ROWS):
        source = str(tmp_path / f"original_{rows}")
        target = str(tmp_path / f"converted_{rows}")
        module = Recommender(rows=rows)
        tf.saved_model.save(module, source, signatures=module.rate)
        statement = f"ios_tf.convert({source!r}, {target!r}, strategy='greedy')"
        peaks.append(peak_mebibytes(statement))
    assert peaks[1] - peaks[0] < 2.5 * ROWS * COLUMNS * 4 / MIB


def peak_mebibytes(statement: str) -> float:
    """The largest resident memory of a process that runs a statement."""
    script = f"import ios_tf; {statement}; print(open('/proc/self/status').read())"
    output = run_prepared("-c", script, TF_CPP_MIN_LOG_LEVEL="3").stdout
    match = re.search(r"VmHWM:\s*(\d+) kB", output)
    assert match, output
    return int(match[1]) / 1024


def test_optimize_copies_tables() -> None:
    module = Recommender(tf.nn.embedding_lookup)
    faster = ios_tf.optimize(module.rate, strategy="greedy")
    inputs = arguments(2)
    expected = module.rate(**inputs)["rating"].numpy()
    module.table.assign(module.table * 2)  # as training would do
    np.testing.assert_allclose(faster(**inputs)["rating"], expected, 1e-4, 1e-4)


@pytest.mark.parametrize("equal", [False, True])
def test_optimize_takes_equal_filters(equal: bool) -> None:
    module = tf.Module()
    module.first = tf.Variable(tf.zeros([3, 3, 48, 48]))
    module.second = tf.Variable(tf.zeros([3, 3, 48, 48]) + (0.0 if equal else 0.1))

    @tf.function(input_signature=[tf.TensorSpec([None, 9, 8, 48])])
    def function(x: tf.Tensor) -> tf.Tensor:
        y = tf.nn.relu(tf.nn.conv2d(x, module.first, 1, "SAME") + x)
        return y + tf.nn.conv2d(x, module.second, 1, "SAME")

    faster = ios_tf.optimize(function, strategy="greedy")
    x = tf.constant(random.random((2, 9, 8, 48)), tf.float32)
    np.testing.assert_allclose(faster(x), function(x), 1e-4, 1e-4)
