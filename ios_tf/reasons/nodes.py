"""Reasons why the importer leaves nodes of a graph to TensorFlow (IOS001 to IOS099).

The C++ importer gives these reasons (cc/core/reasons.def). They matter most for
convolutions, because a region needs at least one convolution.
"""

from ios_tf.reasons.reason import Reason

TYPE = Reason(
    1,
    "node-type",
    "The engine has no operator for the node's type",
    "The engine computes convolutions and the operators that usually surround them. "
    "TensorFlow computes all other nodes, such as decoding, sorting or non-maximum "
    "suppression. The result is the same.",
    "You need not do anything if the node is at the beginning or the end of the "
    "network. A node of this kind between two convolutions splits a region in two. If "
    "such a node takes much time, replace it by a layer that the engine supports. "
    "docs/reference/operators.md lists these layers.",
)
UNKNOWN_SHAPE = Reason(
    2,
    "unknown-shape",
    "The shape of a tensor is not known well enough",
    "The engine plans memory before it runs. It therefore needs the rank and the "
    "number of channels of each tensor. Some operators also need a proof that two "
    "tensors always have the same height and width, for example both inputs of an "
    "AddN. TensorFlow's shape inference did not find one of these facts for a tensor "
    "that the node reads or writes. The engine gives the same reason if the rank of "
    "such a tensor is not 2 or 4, if the tensor has no elements, or if an input and "
    "the result differ in type.",
    "Export the model with an input signature that gives the rank and the channels, "
    "for example [None, None, None, 3]. Avoid sizes that are computed from values of "
    "tensors.",
)
DATA_TYPE = Reason(
    3,
    "data-type",
    "The engine does not support the node's data type",
    "The engine runs nodes of the types float32, float16 and bfloat16. TensorFlow runs "
    "nodes of other types. Most of these nodes compute shapes in int32 and take hardly "
    "any time.",
    "You need not do anything for integers and strings. If the network computes in "
    "float64, build the model with float32.",
)
TYPE_ON_GPU_ONLY = Reason(
    4,
    "type-on-gpu-only",
    "The engine supports this data type on GPUs only",
    "Only earlier versions gave this reason. On a CPU, they left networks in float16 "
    "to TensorFlow.",
    "Convert the model again.",
)
OTHER_DEVICE = Reason(
    5,
    "other-device",
    "The node is placed on another device",
    "The model names a device for this node, and the conversion is for another device.",
    "Export the model without tf.device, or give the named device as --device when "
    "you convert the model.",
)
LAYOUT = Reason(
    6,
    "layout",
    "The layouts of the node's tensors do not match",
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
    "filter that depends on the input, or the operand does not have one value per "
    "channel.",
    "You need not do anything if the operand must depend on the input. Otherwise "
    "compute the operand once, when the model is built. For example, normalize weights "
    "at that time, and not in every call.",
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
    "node pads, pools, reduces, concatenates, slices, rolls or repeats another "
    "dimension, such as the batch.",
    "If the model needs this node, leave it as it is: TensorFlow runs the node, with "
    "the same result. If the node is between two convolutions, it splits a region in "
    "two. Before the first or after the last convolution, it does not.",
)
CHANNELS = Reason(
    10,
    "channels",
    "The channels of an operand do not match the input",
    "The number of channels of the filter or matrix does not match the number of "
    "channels of the input. TensorFlow may accept such a node, and fail or compute "
    "something unusual when it runs.",
    "Check the model: the layer probably does not do what it should.",
)
FUSED_OPERATION = Reason(
    11,
    "fused-operation",
    "The node fuses an operation that the engine does not have",
    "Another program has already optimized the graph: a convolution node contains "
    "further operations, and the engine does not support one of these operations.",
    "Convert the model as it was before this optimization.",
)
OUTPUT_SIZE = Reason(
    12,
    "output-size",
    "The engine cannot derive the output size for all input sizes",
    "A resize, a repetition or a transposed convolution gets its output size from "
    "values that the network computes. The engine can derive a size from the sizes of "
    "other tensors and from constant factors, but not from this computation.",
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
    "cannot be folded. The engine gives the same reason for a batch norm whose input "
    "is not a tensor of images with known channels, height and width.",
    "Export the model for inference: call it with training=False. If it is already "
    "exported for inference, check the shape of the batch norm's input. You need not "
    "do anything if this input is not a tensor of images: TensorFlow runs the node.",
)
EQUATION = Reason(
    15,
    "equation",
    "The node does not multiply channels by a matrix of weights",
    "The engine computes matrix products that multiply the channels of a tensor by a "
    "constant or a variable. This Einsum or MatMul computes a different product.",
    "You need not do anything for attention and similar products. For a layer with "
    "weights, use Dense or a 1x1 convolution.",
)
RESHAPE = Reason(
    16,
    "reshape",
    "The reshape changes the order of pixels, or mixes images or channels",
    "The engine supports reshapes that only add, remove or flatten height and width.",
    "Flatten or pool images before you reorder their values. In other reshapes, keep "
    "the batch and the channels as separate dimensions.",
)
TRANSPOSE = Reason(
    17,
    "transpose",
    "The transpose does not convert between NHWC and NCHW",
    "The engine absorbs transposes that only change the layout of images. TensorFlow "
    "runs other transposes.",
    "Remove the transpose if no later node needs this order of dimensions.",
)
SLICE = Reason(
    18,
    "slice",
    "The slice is not a fixed range of pixels or channels",
    "The engine can cut a constant number of pixels off the borders of an image, or "
    "take a constant range of channels. This slice has strides, depends on the size of "
    "its input, cuts the batch, or cuts channels together with height or width.",
    "Use Cropping2D or tf.split where possible.",
)
REJECTED_SIZES = Reason(
    19,
    "rejected-sizes",
    "TensorFlow rejects some input sizes that the engine would accept",
    "A converted model must fail for the same inputs as the original. The engine would "
    "not check the input size at this node, so TensorFlow runs the node.",
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
    "For some input size, the engine would compute a tensor of another shape than "
    "TensorFlow infers, or TensorFlow cannot infer the shape. The converted model "
    "could then fail or return other outputs, so TensorFlow runs the node.",
    "Export the model with a fixed image size. If the model already has a fixed image "
    "size, please report it as a bug.",
)
OUTSIDE_REGIONS = Reason(
    22,
    "outside-regions",
    "The operator is not in a region with a convolution",
    "The engine could compute the operator, but a region without a convolution costs "
    "more than it gains. A node between the operator and the next convolution is left "
    "to TensorFlow.",
    "You need not do anything for a few small operators. Otherwise read the reasons of "
    "the nodes between the operator and the convolutions.",
)
PART_OF_OPERATOR = Reason(
    23,
    "part-of-operator",
    "The node is only supported as a part of another operator",
    "Reshapes, casts, transposes and comparisons are absorbed by neighboring "
    "operators. No neighbor absorbs this node, or a node outside of the region reads "
    "the result of this node.",
    "You need not do anything, because such nodes take little time.",
)
PATTERN = Reason(
    24,
    "pattern",
    "The nodes do not form a function that the engine supports",
    "The engine recognizes norms, channel shuffles and activations that consist of "
    "several nodes of the graph. These nodes look similar, but compute something else.",
    "Use the layers of Keras (GroupNormalization, LayerNormalization, activations) if "
    "they compute what you need.",
)
CONDITIONAL = Reason(
    25,
    "conditional",
    "The node is inside of a branch or a loop of the graph",
    "It is possible that the node does not run in a call, or runs several times. A "
    "region can only contain nodes that run exactly once in each call.",
    "Convert the model without the branch, for example with a constant training=False.",
)
FED = Reason(
    26,
    "fed",
    "The caller can provide the node's result",
    "A caller of the graph can pass a value that replaces the node's own result, so "
    "the node must stay in the graph.",
    "Do not feed this tensor, and do not declare it as an input of the model.",
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
