"""Reasons that appear in logs when models are loaded and run (IOS401 to IOS499).

They come from the plugin, from `ios_tf.enable` and from the schedule cache.
"""

from ios_tf.reasons.reason import Reason

NO_LIBRARY = Reason(
    401,
    "no-library",
    "IOS-TF has no effect, because its library cannot be used",
    "The native library is missing, or was built for another version of TensorFlow. "
    "Models run as plain TensorFlow.",
    "Install the package for the TensorFlow that is installed. The message says what "
    "is missing.",
)
GRAPH_NOT_LOWERED = Reason(
    402,
    "graph-not-lowered",
    "A graph runs as plain TensorFlow",
    "A graph that has schedules, or that is loaded while `ios_tf.enable` is on, could "
    "not be prepared for the engine. The outputs are the same, but the graph does not "
    "run faster.",
    "Convert the model again with this version of IOS-TF. If that does not help, "
    "please report the message.",
)
UNUSABLE_GPU = Reason(
    403,
    "unusable-gpu",
    "Nodes on a GPU run as plain TensorFlow",
    "The engine cannot use the GPU: the driver, cuDNN or NVRTC is missing or too old.",
    "Install the driver or library that the message names. docs/guides/gpu.md lists "
    "the libraries.",
)
INVALID_REGION = Reason(
    404,
    "invalid-region",
    "A region is left to TensorFlow, because the engine rejects it",
    "The region exceeds a limit of the engine, such as the number of operators.",
    "You need not do anything: the rest of the graph runs on the engine.",
)
INVALID_SCHEDULE = Reason(
    405,
    "invalid-schedule",
    "A region runs sequentially, because its schedule is not valid",
    "The schedule in the graph does not match the region's operators. Probably another "
    "program has changed the graph after the conversion.",
    "Convert the original model again.",
)
MISSING_SCHEDULE = Reason(
    406,
    "missing-schedule",
    "Blocks are left to TensorFlow, because they have no valid schedule",
    "A program has added schedules to the graph for only some of its blocks, or "
    "schedules that do not match their blocks.",
    "Convert the model with `ios_tf convert`, which finds a schedule for each block. "
    "If your own program adds the schedules, search for the missing schedules first.",
)
SEARCH_FAILED = Reason(
    407,
    "search-failed",
    "The search for a schedule failed",
    'With on_miss="search", IOS-TF searches for the schedules of a graph when the '
    "graph is loaded. One search failed or took too long, so IOS-TF does not search "
    "for the graph's other missing schedules.",
    'Use on_miss="skip" and run `ios_tf tune`, which searches for missing schedules in '
    "another process.",
)
CACHE_FILE_IGNORED = Reason(
    408,
    "cache-file-ignored",
    "A file of the schedule cache is ignored",
    "The file is damaged, belongs to another block or version, or is not a regular "
    "file.",
    "Remove the file, or run `ios_tf cache prune`, which removes all files that are "
    "not valid. IOS-TF writes a file again when it is needed.",
)
CACHE_NOT_WRITTEN = Reason(
    409,
    "cache-not-written",
    "The schedule cache cannot be read or written",
    "The directory is full, not readable or not writable, or it already contains 1,000 "
    "blocks that wait for a schedule. A schedule that is not stored is searched again "
    "in the next process. `ios_tf tune` cannot schedule a block that is not stored.",
    "Name a writable directory with --cache_dir or IOS_TF_CACHE. If blocks wait for a "
    "schedule, run `ios_tf tune`.",
)
CACHE_NOT_OPENED = Reason(
    410,
    "cache-not-opened",
    "The schedule cache is not used for a device",
    "The engine cannot use the device, so IOS-TF does not know which of the cached "
    "schedules are for this device.",
    "If the device is a GPU, install the driver or library that the message names. "
    "docs/guides/gpu.md lists the libraries.",
)
OTHER_PLUGIN = Reason(
    411,
    "other-plugin",
    "Another graph optimizer plugin is registered",
    "TensorFlow uses only one graph optimizer plugin for each type of device, and "
    "another package has registered its plugin first.",
    'Import ios_tf first, remove the other package, or add "IosOptimizer" to the '
    "custom_optimizers of the session's RewriterConfig.",
)
GRAPHS_NOT_FROZEN = Reason(
    412,
    "graphs-not-frozen",
    "`ios_tf.enable` does not change graphs whose weights are variables",
    "The engine needs weights that are constants of the graph, as in a frozen graph.",
    "Convert the model with `ios_tf convert`, or make the function faster with "
    "`ios_tf.optimize`.",
)
NO_SCHEDULE = Reason(
    413,
    "no-schedule",
    "Blocks run as plain TensorFlow until they have a schedule",
    "The schedule cache has no schedules for the blocks. The blocks are stored in the "
    "directory `pending` of the cache.",
    "Run `ios_tf tune`, which searches for the schedules. Running processes then use "
    'them. Or call `ios_tf.enable` with on_miss="greedy" or "search".',
)
NO_CUDA_GRAPH = Reason(
    414,
    "no-cuda-graph",
    "A CUDA graph could not be created",
    "The kernels of a region are launched one by one, which is slower.",
    "Free GPU memory, or use fewer concurrent callers.",
)
PASSES_STAY_ON = Reason(
    415,
    "passes-stay-on",
    "Passes that TensorFlow's options switch off still run",
    "The plugin runs TensorFlow's passes itself, and TensorFlow does not tell it "
    "which ones you have switched off.",
    "Switch use_plugin_optimizers off, too. Converted models then run as plain "
    "TensorFlow.",
)
NOT_SEARCHED = Reason(
    416,
    "not-searched",
    "A pending block cannot be searched",
    "The engine rejects the block, or a measurement of the block failed.",
    "If the message says that memory is short, free memory, and run `ios_tf tune` "
    "again. Otherwise TensorFlow computes the block, and you can remove the file.",
)
LATENCIES_NOT_KEPT = Reason(
    417,
    "latencies-not-kept",
    "The database of latencies cannot be used or has invalid lines",
    "The next search measures the missing latencies again.",
    "Check the permissions and the free space of the cache directory. `ios_tf cache "
    "clear` removes a damaged database.",
)
