"""Python and C++ call things alike."""

import json

from ios_tf import names, runtime
from ios_tf.scheduler import document


def test_names_are_those_of_the_library():
    assert json.loads(runtime._take_string(runtime._library().ios_tf_names())) == {
        "annotations": list(names.ANNOTATIONS),
        "shape_of_weight": names.SHAPE_OF_WEIGHT,
        "merged": names.MERGED,
        "optimizer": names.OPTIMIZER,
        "region": names.REGION,
        "pending": names.PENDING,
        "version": document.VERSION,
    }
