"""Names in graphs and caches, which must be equal to those of cc/tensorflow/names.h."""

import os.path
from collections.abc import Iterable

# Names of the attributes of nodes that contain schedules: lists with one entry per
# load (batch size and callers). The precision is the same for all loads.
ANNOTATIONS = (
    "_ios_batch",
    "_ios_callers",
    "_ios_stage",
    "_ios_stream",
    "_ios_merge",
    "_ios_micro_batches",
    "_ios_algorithm",
    "_ios_precision",
)
# The attribute with the shape of a weight that a node reads or computes from variables.
SHAPE_OF_WEIGHT = "_ios_shape"
# The attributes of a placeholder for a variable: the variable's type and shape.
TYPE_OF_VARIABLE = "_ios_variable_type"
SHAPE_OF_VARIABLE = "_ios_variable_shape"
# The suffix of a merged convolution's name, after the name of the first convolution.
MERGED = "/ios_merge"
OPTIMIZER = "IosOptimizer"
REGION = "IosRegion"
# TensorFlow's passes that the plugin runs itself, by the names of TensorFlow's options.
# The plugin cannot know which of them the user has switched off.
PASSES = (
    "remapping",
    "layout_optimizer",
    "arithmetic_optimization",
    "common_subgraph_elimination",
)
# The payload of an error that says that TensorFlow's own shape inference has failed.
NO_SHAPES = "ios_tf/no_shapes"
# The subdirectory of a cache for blocks that wait for `ios_tf tune`.
PENDING = "pending"


def common_scope(names: Iterable[str]) -> str:
    """The scope that all names of nodes share: "" or a text that ends with a slash."""
    start = os.path.commonprefix(list(names))  # noqa: RUF071 (characters are meant)
    return start[: start.rfind("/") + 1]
