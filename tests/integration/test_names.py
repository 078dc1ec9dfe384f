"""Python and C++ use the same names."""

import json

from ios_tf.native import names, plugin
from ios_tf.scheduler import document
from ios_tf.tuning import on_the_fly


def test_names_are_those_of_the_library():
    assert json.loads(on_the_fly._take_string(plugin.runtime().ios_tf_names())) == {
        "annotations": list(names.ANNOTATIONS),
        "shape_of_weight": names.SHAPE_OF_WEIGHT,
        "type_of_variable": names.TYPE_OF_VARIABLE,
        "shape_of_variable": names.SHAPE_OF_VARIABLE,
        "merged": names.MERGED,
        "optimizer": names.OPTIMIZER,
        "region": names.REGION,
        "passes": list(names.PASSES),
        "no_shapes": names.NO_SHAPES,
        "pending": names.PENDING,
        "version": document.VERSION,
    }
