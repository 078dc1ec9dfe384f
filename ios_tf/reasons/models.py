"""Reasons about regions, signatures and whole models (IOS101 to IOS199)."""

from ios_tf.reasons.reason import Reason

NO_CONVOLUTION = Reason(
    101,
    "no-convolution",
    "The model has no convolution that the engine supports",
    "IOS-TF schedules convolutional networks: a region needs at least one Conv2D, "
    "DepthwiseConv2D or Conv2DTranspose.",
    "Keep the original model. If it has convolutions, check that you convert the "
    "right signature.",
)
CONVOLUTION_TYPE = Reason(
    102,
    "convolution-type",
    "The engine does not support this type of convolution",
    "The engine computes convolutions of images and sequences in two dimensions. "
    "TensorFlow computes others, such as Conv3D.",
    "Nothing: the rest of the model is converted.",
)
INSIDE_FUNCTION = Reason(
    103,
    "inside-function",
    "Convolutions are inside of loops, branches or functions",
    "Functions that loops, branches or XLA run cannot become part of a region of the "
    "graph around them.",
    "Move the convolutions out of the loop or branch, or drop jit_compile=True for "
    "this function.",
)
SLOW_REGION = Reason(
    104,
    "slow-region",
    "The engine is not clearly faster for a region",
    "The region and the same nodes in TensorFlow were timed in turn on this machine. "
    "The engine must be at least 1 % faster; otherwise TensorFlow keeps the region.",
    "Nothing. If the machine was busy, convert again when it is idle (--again). "
    "--keep_slower converts the region anyway.",
)
REGION_NOT_TIMED = Reason(
    105,
    "region-not-timed",
    "A region could not be timed",
    "The signature could not be called, so its regions were timed with made-up "
    "tensors. A region that rejects such tensors has no latency, and is left to "
    "TensorFlow.",
    "Give real inputs with --samples=FILE.npz (samples= in Python), or convert "
    "untimed regions with --keep_slower.",
)
SLOW_SIGNATURE = Reason(
    106,
    "slow-signature",
    "The converted signature is not clearly faster",
    "The converted signature and the original were timed in turn on this machine. The "
    "converted one must be at least 1 % faster; otherwise the signature keeps its "
    "original graph.",
    "Nothing, if the machine was idle. Convert for the batch sizes that you use, give "
    "the search more time (--time_limit), or keep the result with --keep_slower.",
)
NO_FAST_REGION = Reason(
    107,
    "no-fast-region",
    "None of a signature's regions is clearly faster",
    "Each region was timed beside TensorFlow, and TensorFlow keeps all of them. "
    "Nothing is left to convert.",
    "As for IOS104: convert on an idle machine, or use --keep_slower.",
)
NOTHING_TIMED = Reason(
    108,
    "nothing-timed",
    "Neither a signature nor any of its regions could be timed",
    "IOS-TF keeps only what is measured to be faster. The signature could not be "
    "called with made-up inputs, and its regions rejected made-up tensors.",
    "Give real inputs with --samples=FILE.npz (samples= in Python), or use "
    "--keep_slower.",
)
COPIED = Reason(
    109,
    "copied",
    "The model is copied unchanged",
    "Nothing in the model became faster, or it cannot be converted. The result is a "
    "copy, so that scripts can use it in any case. The other lines of the report say "
    "why.",
    "Read the other reasons in the report. `--exit_code` makes the command end with 3 "
    "for a copied model.",
)
ORIGINAL_RUNS = Reason(
    110,
    "original-runs",
    "The original function is run",
    "`ios_tf.optimize` found nothing that makes the function faster, or cannot "
    "convert it. The returned function calls the original.",
    "Read the other reasons in the report.",
)
CHANGES_VARIABLE = Reason(
    111,
    "changes-variable",
    "A signature changes a variable that its outputs need",
    "A converted model has constants in place of variables. A call that changes a "
    "variable would then have no effect on later calls.",
    "Export a function that calls the model with training=False, without counters and "
    "moving averages.",
)
NO_OUTPUTS = Reason(
    112,
    "no-outputs",
    "A function has no outputs",
    "The function has side effects only, such as initializing tables, or nothing at "
    "all. There is nothing to make faster.",
    "Convert the other signatures: --signature=NAME.",
)
TENSORFLOW_FAILS = Reason(
    113,
    "tensorflow-fails",
    "TensorFlow's own passes fail for the model",
    "IOS-TF uses TensorFlow's inlining, constant folding and inference of shapes. One "
    "of these fails for the original model, too.",
    "Export the model again with the TensorFlow version that converts it. If it still "
    "fails, please report the error in the message to TensorFlow.",
)
OPTIMIZERS_CHANGE_OUTPUTS = Reason(
    114,
    "optimizers-change-outputs",
    "TensorFlow's graph optimizers change the outputs of the original",
    "With and without its graph optimizers, TensorFlow computes different outputs. A "
    "converted model would not be optimized in the same way, so it would differ from "
    "the original as you know it.",
    "Find out which of the two outputs is right: run the original with "
    "tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True}).",
)
SHARE_OF_NAN = Reason(
    115,
    "share-of-nan",
    "The converted model would return another share of NaN",
    "The outputs have NaN at other places than the original's, because TensorFlow "
    "optimizes the operators after the regions in another way.",
    "Find out why the model returns NaN, and give real inputs with --samples=FILE.npz.",
)
DIRECT_CONVOLUTIONS = Reason(
    116,
    "direct-convolutions",
    "Convolutions are computed directly, without Winograd's minimal filtering",
    "Winograd's minimal filtering has other rounding errors than a direct convolution. "
    "In this network, they change a tensor more than rounding the network's inputs "
    "does, so the algorithm is not used.",
    "Nothing. --winograd=off skips the attempt.",
)
SEQUENTIAL = Reason(
    117,
    "sequential",
    "The sequential schedules are used",
    "Blocks are searched one by one. In the whole network, the schedules that were "
    "found were not faster than one operator after another.",
    "Nothing on an idle machine: few cores leave little to run side by side. If the "
    "machine was busy, convert again with --again.",
)
FIXED_BATCH_SIZE = Reason(
    118,
    "fixed-batch-size",
    "A signature computes a fixed number of images per call",
    "No input has an open first dimension, or the number of images depends on "
    "something else. So the requested batch size does not apply.",
    "Export the model with an open batch dimension (None) to schedule it for other "
    "batch sizes.",
)
OTHER_NETWORK = Reason(
    119,
    "other-network",
    "Nothing is scheduled for a batch size",
    "At this batch size the graph has other operators, for example because a slice of "
    "the batch is empty. Schedules for the other sizes do not fit.",
    "Leave this batch size out, or convert a second model for it.",
)
LOST_FUNCTION = Reason(
    120,
    "lost-function",
    "The result lacks functions of the original model",
    "A converted model has the signatures of the original. Further functions, such as "
    "`fit` or helper methods, are not saved, because no signature computes them.",
    "Give the function a signature when you save the original, or keep the original "
    "for this use.",
)
NOT_REQUESTED = Reason(
    121,
    "not-requested",
    "A signature is left as it is, because the options do not name it",
    "Only the signatures of --signature are converted. Others keep their original "
    "graph.",
    "Leave --signature out to convert all signatures.",
)
SLOW_WITHOUT_PACKAGE = Reason(
    122,
    "slow-without-package",
    "The converted model is slower than the original where IOS-TF is not installed",
    "Without the plugin, a converted model runs as an ordinary SavedModel. At some "
    "batch size, TensorFlow runs it more slowly than the original.",
    "Install the package, or load the library, wherever the model is served. "
    "Otherwise serve the original there.",
)
