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
    "The graph has schedules, or `ios_tf.enable` is on, but it could not be prepared "
    "for the engine. The outputs are the same, but it is not faster.",
    "Convert the model again with this version of IOS-TF. If that does not help, "
    "please report the message.",
)
UNUSABLE_GPU = Reason(
    403,
    "unusable-gpu",
    "Nodes on a GPU run as plain TensorFlow",
    "The engine cannot use the GPU: the driver, cuDNN or NVRTC is missing or too old.",
    "Install what the message names. docs/guides/gpu.md lists the libraries.",
)
INVALID_REGION = Reason(
    404,
    "invalid-region",
    "A region is left to TensorFlow, because the engine rejects it",
    "The region exceeds a limit of the engine, such as the number of operators.",
    "Nothing: the rest of the graph runs on the engine.",
)
INVALID_SCHEDULE = Reason(
    405,
    "invalid-schedule",
    "A region runs sequentially, because its schedule is not valid",
    "The schedule in the graph does not fit the region's operators. Somebody has "
    "probably changed the graph after the conversion.",
    "Convert the original model again.",
)
MISSING_SCHEDULE = Reason(
    406,
    "missing-schedule",
    "Blocks are left to TensorFlow, because they have no valid schedule",
    "The graph was rewritten with schedules for some of its blocks only, or with "
    "schedules that do not fit.",
    "Search the missing blocks, or convert with `ios_tf convert`, which searches all.",
)
SEARCH_FAILED = Reason(
    407,
    "search-failed",
    "The search for a schedule failed",
    'With on_miss="search", a graph\'s blocks are searched when the graph is loaded. '
    "One search failed or took too long, so the graph's other unknown blocks are not "
    "searched.",
    'Use on_miss="skip" and run `ios_tf tune`, which searches pending blocks in its '
    "own time.",
)
CACHE_FILE_IGNORED = Reason(
    408,
    "cache-file-ignored",
    "A file of the schedule cache is ignored",
    "The file is damaged, belongs to another block or version, or is not a regular "
    "file.",
    "Remove the file, or run `ios_tf cache verify`. A conversion writes it again.",
)
CACHE_NOT_WRITTEN = Reason(
    409,
    "cache-not-written",
    "The schedule cache cannot be read or written",
    "The directory is missing, full or not writable, or 1,000 blocks wait for a "
    "schedule already. Searches work, but their results are lost.",
    "Name a writable directory with --cache_dir or IOS_TF_CACHE. If blocks wait, run "
    "`ios_tf tune`.",
)
CACHE_NOT_OPENED = Reason(
    410,
    "cache-not-opened",
    "The schedule cache is not used for a device",
    "The engine cannot use the device, so it cannot tell which schedules are for it.",
    "As for IOS403, if the device is a GPU.",
)
OTHER_PLUGIN = Reason(
    411,
    "other-plugin",
    "Another graph optimizer plugin is registered",
    "TensorFlow calls only one plugin for each type of device, and another package "
    "was faster to register its own.",
    'Import ios_tf first, remove the other package, or add "IosOptimizer" to '
    "custom_optimizers.",
)
GRAPHS_NOT_FROZEN = Reason(
    412,
    "graphs-not-frozen",
    "`ios_tf.enable` leaves graphs alone whose weights are variables",
    "Only frozen graphs have their weights as constants, which the engine needs.",
    "Convert the model with `ios_tf convert`, or make the function faster with "
    "`ios_tf.optimize`.",
)
NO_SCHEDULE = Reason(
    413,
    "no-schedule",
    "Blocks run as plain TensorFlow until they have a schedule",
    "The schedule cache does not know the blocks. They wait in the folder `pending`.",
    "Run `ios_tf tune`: running processes then use the schedules. Or call "
    '`ios_tf.enable` with on_miss="greedy" or "search".',
)
NO_CUDA_GRAPH = Reason(
    414,
    "no-cuda-graph",
    "A CUDA graph could not be made",
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
    "The engine rejects the block, or it failed while it measured the block.",
    "Remove the file, if the message says that it is damaged. Otherwise free memory "
    "and run `ios_tf tune` again.",
)
LATENCIES_NOT_KEPT = Reason(
    417,
    "latencies-not-kept",
    "The database of latencies cannot be used or has invalid lines",
    "Latencies are measured again in the next search.",
    "Check the permissions and the free space of the cache directory. `ios_tf cache "
    "clear` removes a damaged database.",
)
