"""A SavedModel loaded for its signatures keeps only what the signatures need."""

import gc
import resource

import graph_helpers as gh
import numpy as np
import pytest
import tensorflow as tf

from ios_tf.errors import UserError
from ios_tf.model import saved_models


def sizes_of_variables() -> list[int]:
    gc.collect()
    alive = [one for one in gc.get_objects() if isinstance(one, tf.Variable)]
    return [one.shape.num_elements() for one in alive]


class Trained(tf.Module):
    """A filter, an optimizer's variable for it, and a table."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = tf.Variable(gh.random_array(3, 3, 7, 11))
        self.velocity = tf.Variable(tf.zeros((3, 3, 7, 13)))
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["scale"], [0.5]), 1.0
        )

    @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 7))])
    def serve(self, image):
        scale = self.table.lookup(tf.constant("scale"))
        return tf.nn.conv2d(image, self.filters, 1, "SAME") * scale


def test_variables_that_no_signature_reads_are_let_go(tmp_path):
    model = Trained()
    tf.saved_model.save(model, str(tmp_path), signatures=model.serve)
    image = tf.constant(gh.random_array(2, 8, 8, 7))
    expected = model.serve(image).numpy()
    del model
    loaded = saved_models.load(str(tmp_path))
    alive = sizes_of_variables()
    assert alive.count(3 * 3 * 7 * 11) == 1
    assert alive.count(3 * 3 * 7 * 13) == 0
    (found,) = loaded.signatures["serving_default"](image).values()
    np.testing.assert_array_equal(found, expected)


def test_a_full_disk_is_one_sentence_with_the_path(tmp_path):
    """Files can be created, but hold at most 100 bytes, as on a disk that is full."""
    model = Trained()
    original, copy = str(tmp_path / "original"), str(tmp_path / "copy")
    tf.saved_model.save(model, original, signatures=model.serve)
    loaded = saved_models.load(original)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(UserError, match=f"^{copy} cannot be written: .*File too"):
            saved_models.save(loaded, loaded.signatures, copy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
