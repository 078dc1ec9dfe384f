"""Reasons about measurements and searches (IOS301 to IOS399)."""

from ios_tf.reasons.reason import Reason

REGIONS_ONLY = Reason(
    301,
    "regions-only",
    "Only the regions of a signature were timed",
    "The signature could not be called, so each region was timed with random tensors. "
    "The converted regions are faster than TensorFlow, but the latency of the whole "
    "signature is not known.",
    "Give real inputs with --samples=FILE.npz (samples= in Python), or measure with "
    "`ios_tf bench`.",
)
NOT_TIMED = Reason(
    302,
    "not-timed",
    "A signature was not timed",
    "The signature could not be called. It is converted in any case, because of the "
    "option --keep_slower, or because --strategy names a baseline (sequential or "
    "greedy). It may be slower than the original.",
    "Give real inputs with --samples=FILE.npz (samples= in Python), or measure with "
    "`ios_tf bench`.",
)
UNDECIDED = Reason(
    303,
    "undecided",
    "It is not known whether a signature became faster",
    "Other processes disturbed the measurements so much that they do not show which "
    "version is faster. The version that is faster by the estimates is kept.",
    "Convert again with --again when the machine is idle. Undisturbed measurements are "
    "reused.",
)
CUT = Reason(
    304,
    "cut",
    "A block was cut into parts, because it is too large to search as a whole",
    "The number of possible stages grows fast with the number of operators that can "
    "run side by side. Each part is searched by itself, so the search does not "
    "consider stages with operators of several parts.",
    "Make the search smaller with --max_groups and --max_group_size, or choose the "
    "cuts with --block_end.",
)
LITTLE_MEMORY = Reason(
    305,
    "little-memory",
    "Blocks could not be measured because too little memory was free",
    "Measuring a stage needs memory for its tensors and weights. Stages that could "
    "not be measured are not used.",
    "Free memory, convert on a machine with the same processor and more memory, or use "
    "a smaller batch size or image size.",
)
TIME_LIMIT = Reason(
    306,
    "time-limit",
    "The search stopped at the time limit",
    "The best schedules found by then are used. The message says how much faster "
    "another schedule could be at most, if this is known.",
    "Give the search more time with --time_limit=SECONDS, or 0 for no limit. The next "
    "search reuses the stored measurements.",
)
BUSY = Reason(
    307,
    "busy",
    "The machine was busy, so latencies are estimates",
    "Other processes took processor time while IOS-TF measured.",
    "Convert again with --again when the machine is idle.",
)
LATENCIES_MISSING = Reason(
    308,
    "latencies-missing",
    "The report lacks latencies of operators and stages",
    "The report contains the latencies of all operators, stages and groups. Those that "
    "the search has not measured are measured for the report, in limited time and "
    "memory. The blocks with the most operations are measured first. The schedules and "
    "the latencies of calls are not affected.",
    "Convert again with the same schedule cache: latencies in the cache are not "
    "measured again, so there is time for others. If memory was too small, free memory "
    "or use a smaller batch size or image size.",
)
NO_TIMELINE = Reason(
    309,
    "no-timeline",
    "The report has no timeline of a signature",
    "IOS-TF records one call of each converted signature for the report. It cannot do "
    "so while your program records a trace, because a process records one trace at a "
    "time.",
    "End the block `with ios_tf.trace(...)` before the conversion, or record a call "
    "of the converted model with `ios_tf trace`.",
)
FRAMEWORK_FAILED = Reason(
    310,
    "framework-failed",
    "A framework could not run the model, so it was not measured",
    "`ios_tf bench --callers` measures the model in several frameworks. This framework "
    "cannot import the model, or failed while it ran the model. The message has the "
    "framework's own error.",
    "Export a signature without the operations that the message names, or compare "
    "with the other frameworks only.",
)
FRAMEWORK_MISSING = Reason(
    311,
    "framework-missing",
    "A framework is not installed, so it was not measured",
    "`ios_tf bench --callers` measures the frameworks whose packages are installed.",
    "Install the packages that the message names.",
)
