"""Reasons why the importer leaves nodes of a graph to TensorFlow (IOS001 to IOS099).

C++ gives these reasons (cc/core/reasons.def). They matter most for convolutions: a
region needs at least one.
"""

from ios_tf.reasons.reason import Reason

TYPE = Reason(
    1,
    "node-type",
    "The engine has no operator for the node's type",
    "The engine computes convolutions and the operators that usually surround them. "
    "TensorFlow computes all other nodes, such as decoding, sorting or non-maximum "
    "suppression. The result is the same.",
    "Nothing, if the node is at the beginning or the end of the network. A node of "
    "this kind between two convolutions splits a region in two. If such a node takes "
    "much time, replace it by a layer that the engine has: docs/reference/operators.md "
    "lists them.",
)
UNKNOWN_SHAPE = Reason(
    2,
    "unknown-shape",
    "The shape of a tensor is not known well enough",
    "The engine plans memory before it runs, so it needs the rank, the channels and, "
    "for some operators, the relation between the sizes of the tensors. TensorFlow's "
    "inference of shapes does not give them for a tensor that the node reads or "
    "writes. Such a tensor is also refused if its rank is not 2 or 4, if it has no "
    "elements, or if an input and the result differ in type.",
    "Export the model with an input signature that gives the rank and the channels, "
    "for example [None, None, None, 3]. Avoid sizes that are computed from values of "
    "tensors.",
)
DATA_TYPE = Reason(
    3,
    "data-type",
    "The engine does not compute the data type",
    "The engine computes float32 and, on a GPU, float16 and bfloat16. TensorFlow "
    "computes nodes of other types. Most of them are int32 nodes that compute shapes, "
    "which take hardly any time.",
    "Nothing for integers and strings. For a network in float64, build the model with "
    "float32.",
)
TYPE_ON_GPU_ONLY = Reason(
    4,
    "type-on-gpu-only",
    "The engine computes this data type on GPUs only",
    "Networks in float16 or bfloat16 run on the engine on a GPU. On a CPU, TensorFlow "
    "computes them.",
    "Convert on the machine with the GPU that will serve the model, or build the "
    "model with float32 for a CPU.",
)
OTHER_DEVICE = Reason(
    5,
    "other-device",
    "The node is placed on another device",
    "The model names a device for this node, and the conversion is for another device.",
    "Export the model without tf.device, or convert it for the named device: --device.",
)
LAYOUT = Reason(
    6,
    "layout",
    "The layouts of the node's tensors do not fit",
    "Some tensors of the node are NHWC (channels last) and others are NCHW (channels "
    "first), or the attribute data_format contradicts the tensors' layout.",
    "Use the same data_format in all layers.",
)
OPERAND_NOT_CONSTANT = Reason(
    7,
    "operand-not-constant",
    "An operand is not a constant or a variable",
    "The engine packs filters, biases, statistics and similar operands before it "
    "runs. Here the network computes such an operand in every call, for example a "
    "filter that depends on the input, or the operand has another shape than one "
    "value per channel.",
    "Nothing, if the operand must depend on the input. If it does not, compute it "
    "once when the model is built, for example weights that are normalized in every "
    "call.",
)
ATTRIBUTE = Reason(
    8,
    "attribute",
    "An attribute or a constant has a value that the engine does not support",
    "Examples are a padding that is not smaller than the pooling window, strides that "
    "are out of range, an unusual exponent, or a factor that is not finite.",
    "Look at the value in the message. If the model does not need it, use another "
    "value.",
)
DIMENSION = Reason(
    9,
    "dimension",
    "The node works along a dimension that the engine does not support",
    "The engine works along height, width or channels, depending on the operator. The "
    "node pads, pools, reduces, joins, cuts, rolls or repeats another dimension, such "
    "as the batch.",
    "Nothing, if the model needs it. Operators along the batch stay outside of the "
    "regions if they come before or after the convolutions.",
)
CHANNELS = Reason(
    10,
    "channels",
    "The channels of an operand do not fit the input",
    "The number of channels of the filter or matrix does not fit the number of "
    "channels of the input. TensorFlow may accept such a node, and fail or compute "
    "something unusual when it runs.",
    "Check the model: the layer probably does not do what it should.",
)
FUSED_OPERATION = Reason(
    11,
    "fused-operation",
    "The node fuses an operation that the engine does not have",
    "The graph was optimized before: a convolution node contains further operations, "
    "and the engine does not support one of them.",
    "Convert the model as it was before it was optimized for another program.",
)
OUTPUT_SIZE = Reason(
    12,
    "output-size",
    "The engine cannot derive the output size for all input sizes",
    "A resize, a repetition or a transposed convolution gets its output size from "
    "values that the network computes. The engine follows sizes of other tensors and "
    "constant factors, but not this computation.",
    "Use a constant factor (UpSampling2D, Conv2DTranspose) or tf.shape of one image "
    "tensor as the size, or export the model with a fixed image size.",
)
STATISTICS_ARE_READ = Reason(
    13,
    "statistics-are-read",
    "Other nodes or callers read a batch norm's statistics",
    "The engine folds a batch norm into a convolution, and then its mean and variance "
    "no longer exist as tensors.",
    "Do not return the statistics, and export the model for inference "
    "(training=False).",
)
TRAINING = Reason(
    14,
    "training",
    "The batch norm runs in training mode",
    "In training mode, a batch norm computes mean and variance from the batch, so it "
    "cannot be folded. The node may also be a batch norm of something else than "
    "images.",
    "Export the model for inference: call it with training=False.",
)
EQUATION = Reason(
    15,
    "equation",
    "The product is not one of channels and a matrix",
    "The engine computes matrix products that multiply the channels of a tensor by a "
    "constant or a variable. This Einsum or MatMul is another product.",
    "Nothing for attention and similar products. For a layer with weights, use Dense "
    "or a 1x1 convolution.",
)
RESHAPE = Reason(
    16,
    "reshape",
    "The reshape changes the order of pixels, or mixes images or channels",
    "The engine takes reshapes that only add, remove or flatten height and width.",
    "Flatten or pool images before you reorder them, and keep batch and channels "
    "apart.",
)
TRANSPOSE = Reason(
    17,
    "transpose",
    "The transpose does not convert between NHWC and NCHW",
    "The engine absorbs transposes that only change the layout of images. TensorFlow "
    "computes other transposes.",
    "Nothing, if the model needs the other order.",
)
SLICE = Reason(
    18,
    "slice",
    "The slice is not a fixed range of pixels or channels",
    "The engine cuts a constant number of pixels from the borders of an image, or "
    "takes a constant range of channels. This slice has strides, depends on the size "
    "of its input, or cuts several dimensions.",
    "Use Cropping2D or tf.split where possible.",
)
REJECTED_SIZES = Reason(
    19,
    "rejected-sizes",
    "TensorFlow rejects some input sizes that the engine would accept",
    "A converted model fails for the same inputs as the original. The engine does not "
    "check the size here, so TensorFlow computes the node.",
    "Export the model with a fixed image size, if all images have the same size.",
)
CHANNELS_VARY = Reason(
    20,
    "channels-vary",
    "The number of input channels is not constant",
    "The number of channels depends on the size of the image or the batch.",
    "Check the reshape or transpose before the node: it probably moves pixels into "
    "the channels.",
)
SHAPES_DISAGREE = Reason(
    21,
    "shapes-disagree",
    "The engine and TensorFlow infer different shapes",
    "For some input size, the shape that the engine would compute is not the shape "
    "that TensorFlow infers, or TensorFlow infers none. The converted model could "
    "fail or differ, so TensorFlow computes the node.",
    "Export the model with a fixed image size. If it already has one, please report "
    "this graph.",
)
OUTSIDE_REGIONS = Reason(
    22,
    "outside-regions",
    "The operator is not in a region with a convolution",
    "The engine could compute the operator, but a region without a convolution costs "
    "more than it gains. Something between the operator and the next convolution is "
    "left to TensorFlow.",
    "Nothing for a few small operators. Otherwise look at the reasons of the nodes "
    "between it and the convolutions.",
)
PART_OF_OPERATOR = Reason(
    23,
    "part-of-operator",
    "The node is only supported as a part of another operator",
    "Reshapes, casts, transposes and comparisons are absorbed by neighboring "
    "operators. No neighbor absorbs this one, or something outside of the region "
    "reads its result.",
    "Nothing: such nodes take little time.",
)
PATTERN = Reason(
    24,
    "pattern",
    "The nodes do not form a function that the engine knows",
    "The engine recognizes norms, channel shuffles and activations that a graph "
    "writes as several nodes. These nodes look similar, but compute something else.",
    "Use the layers of Keras (GroupNormalization, LayerNormalization, activations) if "
    "they compute what you need.",
)
CONDITIONAL = Reason(
    25,
    "conditional",
    "The node is inside of a branch or a loop of the graph",
    "The node may not run in every call, or may run several times. Regions only have "
    "nodes that run exactly once.",
    "Convert the model without the branch, for example with a constant training=False.",
)
FED = Reason(
    26,
    "fed",
    "The caller can provide the node's result",
    "The graph is called with a value in place of the node's own result, so the node "
    "must stay.",
    "Do not feed or name this tensor as an input.",
)
TENSOR_SIZE = Reason(
    27,
    "tensor-size",
    "A tensor is too large for the engine on a GPU",
    "The engine's kernels for GPUs compute indices in 31 bits, so a tensor must have "
    "fewer than 2,147,483,648 elements (8 GiB in float32). The node reads or writes a "
    "larger tensor, at the batch size and image size that the model was converted for. "
    "The limit does not apply to CPUs.",
    "Use a smaller batch size or smaller images.",
)
