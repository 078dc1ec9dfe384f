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
    "The engine supports convolutions of images and of sequences. TensorFlow runs "
    "other convolutions, such as Conv3D.",
    "You need not do anything: the rest of the model is converted.",
)
INSIDE_FUNCTION = Reason(
    103,
    "inside-function",
    "Convolutions are inside of loops, branches or functions",
    "A region is a part of one graph. It cannot contain nodes of a function that a "
    "loop, a branch or XLA runs.",
    "Move the convolutions out of the loop or branch, or remove jit_compile=True from "
    "this function.",
)
SLOW_REGION = Reason(
    104,
    "slow-region",
    "The engine is not clearly faster for a region",
    "The region and the same nodes in TensorFlow were timed in turn on this machine. "
    "If the engine is not at least 1 % faster, TensorFlow runs the region.",
    "You need not do anything if the machine was idle. If it was busy, convert again "
    "with --again when it is idle. --keep_slower converts the region in any case.",
)
REGION_NOT_TIMED = Reason(
    105,
    "region-not-timed",
    "A region could not be timed",
    "The signature could not be called, so its regions were timed with random "
    "tensors. A region that does not accept random tensors cannot be timed, and is "
    "left to TensorFlow.",
    "Give real inputs with --samples=FILE.npz (samples= in Python), or convert "
    "untimed regions with --keep_slower.",
)
SLOW_SIGNATURE = Reason(
    106,
    "slow-signature",
    "The converted signature is not clearly faster",
    "The converted signature and the original were timed in turn on this machine. If "
    "the converted signature is not at least 1 % faster, the signature keeps its "
    "original graph.",
    "If the machine was busy, convert again with --again when it is idle. You can also "
    "convert for the batch sizes that you use, give the search more time "
    "(--time_limit), or keep a slower result (--keep_slower).",
)
NO_FAST_REGION = Reason(
    107,
    "no-fast-region",
    "None of a signature's regions is clearly faster",
    "Each region was timed in turn with the same nodes in TensorFlow. No region was at "
    "least 1 % faster, so the signature keeps its original graph.",
    "If the machine was busy, convert again with --again when it is idle. "
    "--keep_slower converts the regions in any case.",
)
NOTHING_TIMED = Reason(
    108,
    "nothing-timed",
    "Neither a signature nor any of its regions could be timed",
    "IOS-TF converts a signature only if measurements show that it becomes faster. The "
    "signature does not accept random inputs, and its regions do not accept random "
    "tensors, so nothing could be measured.",
    "Give real inputs with --samples=FILE.npz (samples= in Python), or use "
    "--keep_slower.",
)
COPIED = Reason(
    109,
    "copied",
    "The model is copied unchanged",
    "Nothing in the model became faster, or the model cannot be converted. The output "
    "is a copy of the original, so scripts can use the output in any case. The other "
    "lines of the report say why.",
    "Read the other reasons in the report. `--exit_code` makes the command end with 3 "
    "for a copied model.",
)
ORIGINAL_RUNS = Reason(
    110,
    "original-runs",
    "The returned function runs the original",
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
    "Export a function that calls the model with training=False, and that does not "
    "update counters or moving averages.",
)
NO_OUTPUTS = Reason(
    112,
    "no-outputs",
    "A function has no outputs",
    "The function only has side effects, such as initializing tables, or does nothing "
    "at all. There is nothing to make faster.",
    "Convert the other signatures: --signature=NAME.",
)
TENSORFLOW_FAILS = Reason(
    113,
    "tensorflow-fails",
    "TensorFlow's own passes fail for the model",
    "IOS-TF uses TensorFlow's inlining, constant folding and inference of shapes. One "
    "of these passes also fails for the original model.",
    "Export the model again with the TensorFlow version that converts it. If it still "
    "fails, please report the error in the message to TensorFlow.",
)
OPTIMIZERS_CHANGE_OUTPUTS = Reason(
    114,
    "optimizers-change-outputs",
    "TensorFlow's graph optimizers change the outputs of the original",
    "If TensorFlow's graph optimizers are off, the original returns other outputs. "
    "TensorFlow would not optimize a converted model in the same way, so its outputs "
    "would differ from those of the original.",
    "Find out which outputs are right. To see the outputs without graph optimizers, "
    "run the original with "
    "tf.config.optimizer.set_experimental_options({'disable_meta_optimizer': True}).",
)
SHARE_OF_NAN = Reason(
    115,
    "share-of-nan",
    "The share of NaN in an output would change",
    "In an output of the converted model, more or fewer values would be NaN than in "
    "the original's output, because TensorFlow optimizes the operators after the "
    "regions in another way.",
    "Find out why the model returns NaN, and give real inputs with --samples=FILE.npz.",
)
DIRECT_CONVOLUTIONS = Reason(
    116,
    "direct-convolutions",
    "Convolutions are computed directly, without Winograd's minimal filtering",
    "Winograd's minimal filtering has other rounding errors than a direct convolution. "
    "In this network, these errors change a tensor more than rounding the network's "
    "inputs does, so the algorithm is not used.",
    "You need not do anything. With --winograd=off, the conversion does not try the "
    "algorithm.",
)
SEQUENTIAL = Reason(
    117,
    "sequential",
    "The sequential schedules are used",
    "The search finds the schedule of each block separately. In the whole network, "
    "these schedules were not faster than running one operator after another.",
    "You need not do anything if the machine was idle: on few cores, there is little "
    "to gain from running operators side by side. If the machine was busy, convert "
    "again with --again when it is idle.",
)
FIXED_BATCH_SIZE = Reason(
    118,
    "fixed-batch-size",
    "A signature processes a fixed number of images per call",
    "The first dimension of each input is fixed in the signature, so the requested "
    "batch size does not apply. The number of images per call is constant, or depends "
    "on another dimension or on the value of an input.",
    "Export the model with the batch dimension None to schedule it for other batch "
    "sizes.",
)
OTHER_NETWORK = Reason(
    119,
    "other-network",
    "No schedule is made for a batch size",
    "At this batch size, the graph has other operators than at the other batch sizes, "
    "for example because a slice of the batch is empty. So the schedules for the other "
    "batch sizes cannot be used.",
    "Remove this batch size from --batch_size, or convert a second model for it.",
)
LOST_FUNCTION = Reason(
    120,
    "lost-function",
    "The result lacks functions of the original model",
    "A converted model has the signatures of the original, and those of its functions "
    "whose outputs a signature computes, too. Other functions, such as `fit` or helper "
    "methods, are not saved.",
    "Export the function as a signature when you save the original, or keep the "
    "original and call its function.",
)
NOT_REQUESTED = Reason(
    121,
    "not-requested",
    "A signature is left as it is, because the options do not name it",
    "Only the signatures that --signature names are converted. The other signatures "
    "keep their original graph.",
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
FULL_PRECISION_OPERATORS = Reason(
    123,
    "full-precision-operators",
    "Some operators compute in float32 instead of bfloat16",
    "With all operators in bfloat16, an output would differ from the original by more "
    "than the option max_error allows. Operators compute in float32 again until the "
    "difference is small enough, first those that gain the most accuracy for the time "
    "that they cost. The report lists them.",
    "Raise --max_error if your application tolerates larger differences. Give real "
    "inputs with --samples=FILE.npz, because random inputs may be less favourable.",
)
FULL_PRECISION_SIGNATURE = Reason(
    124,
    "full-precision-signature",
    "A signature computes in float32 instead of bfloat16",
    "Bfloat16 would change an output by more than the option max_error allows, even if "
    "only some operators computed in bfloat16. Or the operators that may compute in "
    "bfloat16 are not faster. Or the difference could not be measured, because the "
    "original could not be called. Or the device does not compute in bfloat16: a GPU, "
    "or a processor without bfloat16 arithmetic.",
    "Raise --max_error if your application tolerates larger differences, or give real "
    "inputs with --samples=FILE.npz. --keep_slower uses bfloat16 even if it is not "
    "faster.",
)
OTHER_IMAGE_SIZE = Reason(
    125,
    "other-image-size",
    "The schedules are for another image size than the requested one",
    "The height and width of the images are fixed in the signature, or the graph "
    "cannot process images of the requested size. So --image_size has no effect.",
    "Export the model with the height and width None to schedule it for other sizes.",
)
