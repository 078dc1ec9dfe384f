"""Names in graphs and caches, as cc/tensorflow/names.h has them."""

# Attributes of nodes that carry schedules: lists with an entry for each batch size.
ANNOTATIONS = (
    "_ios_batch",
    "_ios_stage",
    "_ios_stream",
    "_ios_merge",
    "_ios_micro_batches",
    "_ios_algorithm",
)
# The shape of a weight that a node reads from a variable, or computes from variables.
SHAPE_OF_WEIGHT = "_ios_shape"
# The type and the shape of the variable that a placeholder stands for.
TYPE_OF_VARIABLE = "_ios_variable_type"
SHAPE_OF_VARIABLE = "_ios_variable_shape"
# The suffix of a merged convolution's name; its first convolution's name precedes it.
MERGED = "/ios_merge"
OPTIMIZER = "IosOptimizer"
REGION = "IosRegion"
# TensorFlow's passes that the plugin runs itself, by the names of TensorFlow's options.
# TensorFlow does not tell the plugin which passes the user has switched off.
PASSES = (
    "remapping",
    "layout_optimizer",
    "arithmetic_optimization",
    "common_subgraph_elimination",
)
# An error with this payload says that TensorFlow's own shape inference has failed.
NO_SHAPES = "ios_tf/no_shapes"
# The subdirectory of a cache for blocks that wait for `ios_tf tune`.
PENDING = "pending"
