"""Reasons about comparisons with the original model (IOS201 to IOS299)."""

from ios_tf.reasons.reason import Reason

INPUTS_REJECTED = Reason(
    201,
    "inputs-rejected",
    "The original does not accept random inputs",
    "IOS-TF calls the original with random inputs of the declared shapes and types, "
    "and with several image sizes. The model raises an error for all of them.",
    "Give real inputs with --samples=FILE.npz (samples= in Python), or put warm-up "
    "requests for TensorFlow Serving into the model.",
)
STRINGS = Reason(
    202,
    "strings",
    "The original reads strings that IOS-TF cannot generate",
    "The model reads strings other than encoded images, such as serialized "
    "tf.Examples.",
    "Give real inputs with --samples=FILE.tfrecord or FILE.npz (samples= in Python).",
)
SAMPLES_REJECTED = Reason(
    203,
    "samples-rejected",
    "The original does not accept the samples",
    "The original raises an error for your samples, or for the warm-up requests in "
    "the model.",
    "Check that the samples match the signature's inputs, and that the original "
    "accepts them.",
)
INPUT_TYPE = Reason(
    204,
    "input-type",
    "IOS-TF cannot generate values of an input's type",
    "IOS-TF generates random numbers, booleans and encoded images. It cannot generate "
    "resources, variants or quantized numbers.",
    "Export a signature that takes numbers, booleans, or strings that are encoded "
    "images.",
)
NOT_REPEATABLE = Reason(
    205,
    "not-repeatable",
    "Two calls of the original with the same inputs return different outputs",
    "The model has random operators, such as dropout in training mode, so there is no "
    "correct output to compare with.",
    "Export the model for inference (training=False), or without random operators.",
)
STATEFUL = Reason(
    206,
    "stateful",
    "Each call of the original changes the outputs of the next call",
    "The model keeps state, such as a table or a queue. A comparison would change this "
    "state.",
    "Compare the models yourself, with a copy of the state that the calls change.",
)
CONSTANT_OUTPUT = Reason(
    207,
    "constant-output",
    "An output does not depend on the input",
    "The output was the same for different inputs, so a comparison of this output does "
    "not show that the conversion is correct. IOS-TF also compares tensors inside of "
    "the network, if any of them depend on the input.",
    "Give inputs on which the output depends: --samples=FILE.npz (samples= in Python).",
)
ALL_NAN = Reason(
    208,
    "all-nan",
    "All values of an output are NaN",
    "The original returns only NaN for these inputs, so equal outputs hardly show that "
    "the conversion is correct.",
    "Give inputs for which the model returns numbers: --samples=FILE.npz.",
)
AFTER_REGIONS = Reason(
    209,
    "after-regions",
    "Outputs differ, but all tensors inside of the network agree",
    "Operators after the regions turn rounding differences into larger ones. Examples "
    "are argmax, sorting and non-maximum suppression, which may order nearly equal "
    "values differently.",
    "Compare the outputs by the measure that your application uses, such as accuracy.",
)
ROUNDING = Reason(
    210,
    "rounding",
    "Outputs differ about as much as when the inputs are rounded",
    "The network amplifies small differences. Rounding the inputs changes its outputs "
    "as much as the conversion does.",
    "Give real inputs with --samples=FILE.npz, because a network often amplifies "
    "differences more for random inputs. --winograd=off makes rounding errors smaller.",
)
NO_ONNX_RUNTIME = Reason(
    211,
    "no-onnx-runtime",
    "An exported file was not compared, because ONNX Runtime is not installed",
    "`ios_tf export-onnx` runs the exported file in ONNX Runtime and compares the "
    "outputs with TensorFlow's. Without ONNX Runtime, the file is written unchecked.",
    "Run pip install onnxruntime, and export again.",
)
