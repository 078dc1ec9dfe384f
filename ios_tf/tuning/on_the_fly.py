"""enable, disable, status, session_config: control the plugin in this process.

These functions control the plugin through its C API
(cc/tensorflow/plugin/runtime_api.h). TensorFlow's own option
`use_plugin_optimizers` decides which graphs the plugin sees.
"""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2

from ios_tf.errors import NativeLibraryError, UserError, first_line
from ios_tf.native import devices, plugin
from ios_tf.native.names import OPTIMIZER, PASSES
from ios_tf.options import EnableOptions, with_options
from ios_tf.reasons import Decision, Reason
from ios_tf.scheduler import Pruning
from ios_tf.tables import age, counted
from ios_tf.tuning.cache import directory_of
from ios_tf.tuning.pending import BlockTuner, pending_files, problem_of

_logger = logging.getLogger("ios_tf")
_lock = threading.Lock()
_search: _SearchThread | None = None
# TensorFlow's thread waits at most this many milliseconds for a search to begin, and
# then continues without the search. Waiting longer could be a deadlock: the search
# needs Python's global lock, and the thread that holds the lock may be waiting for
# TensorFlow.
_PATIENCE_MS = 10_000


@dataclasses.dataclass(frozen=True)
class RegionStatus:
    """A region that takes schedules from the cache while the process runs.

    Attributes:
      name: the name of the region's first operator.
      waits: whether TensorFlow runs the region until all of its blocks have schedules.
      blocks: number of the region's blocks that a search can find a schedule for.
      missing: number of these blocks that have no schedule in the cache yet.
      age_s: seconds since the oldest schedule in use was written; None if no schedule
        comes from the cache, or if its filesystem keeps no times.
      picked_up: number of times that the region got a new schedule after loading.
    """

    name: str
    waits: bool
    blocks: int
    missing: int
    age_s: float | None
    picked_up: int


@dataclasses.dataclass(frozen=True)
class Status:
    """The state of the optimizer in this process.

    Attributes:
      problem: why the plugin cannot be used, in one line; None if it can.
      enabled: whether graphs without schedules get schedules, see `enable`.
      plugin_runs: whether TensorFlow calls the plugin, see `disable`.
      cache_dir, on_miss, batch_size, callers: as given to `enable`; None if it was not
        called.
      precision: "float32" or "bfloat16", the type that regions of float32 and float16
        operators compute in; None if `enable` was not called.
      pending: blocks that wait for `ios_tf tune`, on this machine's CPU and on the GPUs
        that TensorFlow may use.
      counts: numbers of events since the process began: "annotated_graphs",
        "scheduled_graphs", "passed_graphs" (frozen, but a block had no schedule),
        "graphs_not_frozen", "regions" (run by the engine), "blocks_cached",
        "blocks_greedy", "blocks_searched", "blocks_missed" (still without a schedule),
        "schedules_picked_up" (times that a region got a new schedule after loading),
        "failed_captures" (CUDA graphs that could not be made, so that their work is
        enqueued kernel by kernel), "warnings" (of the schedule cache).
      not_off: passes of TensorFlow that the plugin runs although TensorFlow's options
        switch them off.
      regions: the regions that use new schedules as soon as the cache has them.
      refresh_s: seconds between two looks into the cache for new schedules; 0 if
        schedules are only read when a graph is loaded.
    """

    problem: str | None
    enabled: bool
    plugin_runs: bool
    cache_dir: str | None = None
    on_miss: str | None = None
    batch_size: int | None = None
    callers: int | None = None
    pending: int = 0
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    not_off: Sequence[str] = ()
    regions: Sequence[RegionStatus] = ()
    refresh_s: float = 0
    precision: str | None = None

    def decisions(self) -> list[Decision]:
        """Why parts of this process run as plain TensorFlow, and other problems."""
        if self.problem:
            return [
                Decision(Reason.NO_LIBRARY, f"ios_tf has no effect: {self.problem}")
            ]
        count = self.counts
        found = (
            (
                Reason.NO_SCHEDULE,
                count["blocks_missed"],
                "block",
                "TensorFlow runs {}, because the cache has no schedule yet",
            ),
            (
                Reason.GRAPHS_NOT_FROZEN,
                count["graphs_not_frozen"],
                "graph",
                "{} could not be optimized, because weights of convolutions are "
                "variables. ios_tf.convert makes models with constant weights",
            ),
            (
                Reason.NO_CUDA_GRAPH,
                count["failed_captures"],
                "CUDA graph",
                "{} could not be made, so kernels were launched one by one, which is "
                "slower",
            ),
            (
                Reason.CACHE_FILE_IGNORED,
                count["warnings"],
                "warning",
                "{} about files of the schedule cache, see the log",
            ),
        )
        decisions = [
            Decision(
                reason, text.format(counted(number, noun, noun + "s")), unnamed=number
            )
            for reason, number, noun, text in found
            if number
        ]
        if self.not_off:
            text = "the plugin still runs passes that TensorFlow's options switch off: "
            text += f"{', '.join(self.not_off)}. To stop these passes, also switch "
            text += "use_plugin_optimizers off"
            decisions.append(Decision(Reason.PASSES_STAY_ON, text))
        return decisions

    def __str__(self) -> str:
        decisions = [str(decision) for decision in self.decisions()]
        if self.problem:
            return "\n".join(decisions)
        count = self.counts
        if not self.plugin_runs:
            lines = ["disabled: graphs run as plain TensorFlow"]
        elif not self.enabled:
            lines = [
                "converted models run on the engine; other graphs run as plain "
                "TensorFlow"
            ]
        else:
            lines = [
                f"enabled: schedules from {self.cache_dir}, on_miss={self.on_miss}, "
                f"batch_size={self.batch_size}, callers={self.callers}, "
                f"precision={self.precision}"
            ]
        lines.append(
            f"graphs: {count['annotated_graphs']} converted, "
            f"{count['scheduled_graphs']} with schedules from the cache, "
            f"{count['passed_graphs']} left unchanged; "
            f"{counted(count['regions'], 'region runs', 'regions run')} on the engine"
        )
        lines.append(
            f"blocks: {count['blocks_cached']} from the cache, "
            f"{count['blocks_searched']} searched, {count['blocks_greedy']} greedy, "
            f"{count['blocks_missed']} without a schedule; {self.pending} pending"
        )
        if self.regions:
            lines.append(self._freshness())
        return "\n".join([*lines, *decisions])

    def _freshness(self) -> str:
        """The ages of the schedules in use, in one line."""
        ages = [region.age_s for region in self.regions if region.age_s is not None]
        text = "no schedule from the cache is in use"
        if ages:
            text = f"schedules in use are {age(min(ages))}"
            text += f" to {age(max(ages))} old" if len(ages) > 1 else " old"
        waiting = sum(region.waits for region in self.regions)
        picked_up = self.counts["schedules_picked_up"]
        return (
            f"{text}; {counted(waiting, 'region waits', 'regions wait')} for a "
            f"schedule; {counted(picked_up, 'schedule was', 'schedules were')} picked "
            f"up after loading (the cache is read every {self.refresh_s:g} s)"
        )


@with_options(EnableOptions)
def enable(options: EnableOptions) -> Status:
    """Gives schedules to the frozen graphs that TensorFlow optimises from now on.

    Converted models run on the engine as soon as ios_tf is imported. After this call,
    graphs without schedules do, too: their blocks are looked up in the schedule cache.
    Only graphs whose weights are constants are optimised. Variables that a tf.function
    captures reach the optimizer as arguments; `status` counts such graphs. After the
    first call of `enable`, functions that have run before are optimised again when they
    are called the next time. Later calls do not have this effect.

    Schedules that appear in the cache later are used, too, without a new load. A thread
    looks for them every IOS_TF_REFRESH_SECONDS seconds (60 by default, 0 for never).

    If the native library cannot be used, one line in the log says why, and nothing
    changes.

    Args:
      {options}

    Raises:
      UserError: an argument is out of range.

    Examples:
      >>> status = ios_tf.enable(cache_dir="cache", on_miss="greedy")
      >>> status.enabled, status.on_miss
      (True, 'greedy')
      >>> ios_tf.disable()
      >>> ios_tf.status().enabled
      False
    """
    directory = directory_of(options.cache_dir)
    try:
        library = plugin.runtime()
    except NativeLibraryError as error:
        _warn(f"ios_tf.enable has no effect: {error}")
        return status()
    devices.limit_threads()
    problem = _take_string(
        library.ios_tf_enable(
            directory.encode(),
            options.on_miss.encode(),
            options.batch_size,
            options.callers,
            options.precision.encode(),
        )
    )
    if problem:
        raise UserError(problem)
    if options.on_miss == "search":
        _start_search(options)
    tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": True})
    return status()


def disable() -> None:
    """Lets TensorFlow optimise graphs as if ios_tf were not there.

    Converted models, too, run as plain TensorFlow when they are called the next time.
    """
    tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": False})
    try:
        library = plugin.runtime()
    except NativeLibraryError:
        return
    library.ios_tf_disable()
    _stop_search()


def status() -> Status:
    """The state of the optimizer in this process, with counts of its work."""
    options = tf.config.optimizer.get_experimental_options()
    # Plugins are used by default, if the option is not set.
    runs = options.get("use_plugin_optimizers", True) and not options.get(
        "disable_meta_optimizer", False
    )
    try:
        library = plugin.runtime()
    except NativeLibraryError as error:
        return Status(str(error), False, False)
    found = json.loads(_take_string(library.ios_tf_status()) or "{}")
    directory = found.get("cache_dir")
    pending = 0
    if directory:
        pending = sum(_pending(directory, device) for device in devices.in_use())
    return Status(
        None,
        found["enabled"],
        runs,
        directory,
        found.get("on_miss"),
        found.get("batch_size"),
        found.get("callers"),
        pending,
        found["counts"],
        [name for name in PASSES if runs and options.get(name) is False],
        [RegionStatus(**region) for region in found["regions"]],
        found["refresh_s"],
        found.get("precision"),
    )


def _pending(directory: str, device: str) -> int:
    """The number of pending blocks of a device."""
    try:
        return len(list(pending_files(directory, plugin.device_fingerprint(device))))
    except UserError:  # the engine cannot use the device
        return 0


@with_options(EnableOptions)
def session_config(options: EnableOptions) -> config_pb2.ConfigProto:
    """A configuration that applies `enable` to a tf.compat.v1 session or to a server.

    The configuration names the optimizer and its parameters. You can write it as text
    into a server's platform configuration; `cache_dir` is then a directory of the
    server. "search" works in Python processes that called this function or `enable`;
    elsewhere it works like "skip".

    Args:
      {options}

    Raises:
      UserError: an argument is out of range.

    Examples:
      >>> config = ios_tf.session_config(cache_dir="cache")
      >>> with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
      ...     print(session.run(tf.constant(1) + 1))
      2
    """
    directory = directory_of(options.cache_dir)
    config = config_pb2.ConfigProto()
    custom = config.graph_options.rewrite_options.custom_optimizers.add()
    custom.name = OPTIMIZER
    for key, value in (
        ("mode", "optimize"),
        ("cache_dir", directory),
        ("on_miss", options.on_miss),
        ("precision", options.precision),
    ):
        custom.parameter_map[key].s = value.encode()
    custom.parameter_map["batch_size"].i = options.batch_size
    custom.parameter_map["callers"].i = options.callers
    try:
        plugin.runtime()  # registers the optimizer
        if options.on_miss == "search":
            _start_search(options)
    except NativeLibraryError as error:
        # This is only a warning, because TensorFlow ignores an optimizer that it does
        # not know.
        _warn(f"the configuration has no effect in this process: {error}")
    return config


def _warn(text: str) -> None:
    _logger.warning("%s", Decision(Reason.NO_LIBRARY, text))


class _SearchThread(threading.Thread):
    """A thread that searches for schedules of the optimizer's blocks.

    The optimizer itself runs in TensorFlow's threads, which must not run Python: they
    would wait for Python's global lock while they hold locks of TensorFlow. This is a
    deadlock if the thread that has the global lock waits for one of TensorFlow's locks.
    """

    def __init__(self, library: ctypes.CDLL, options: EnableOptions) -> None:
        super().__init__(name="ios_tf_search", daemon=True)
        self.options = options
        self._library = library
        self._tuners: dict[tuple[str, str], BlockTuner] = {}

    def run(self) -> None:
        pointer = ctypes.c_void_p()
        while number := self._library.ios_tf_take_problem(ctypes.byref(pointer)):
            request = _take_string(pointer.value) or ""
            if not self._library.ios_tf_begin_search(number):
                continue
            schedule = reason = None
            try:
                schedule = self._tune(request).encode()
            # Reports any error, because the optimizer waits for an answer even if the
            # search fails.
            except BaseException as error:
                reason = first_line(error).encode()
            self._library.ios_tf_give_schedule(number, schedule, reason)

    def _tune(self, request: str) -> str:
        data = json.loads(request)
        problem = problem_of(data)
        key = (data["cache_dir"], data["device"])
        if key not in self._tuners:
            options = self.options
            self._tuners[key] = BlockTuner(
                *key,
                pruning=Pruning(options.max_group_size, options.max_groups),
                progress=options.progress,
            )
        return self._tuners[key].tune(problem)[problem.signature].to_json()


def _start_search(options: EnableOptions) -> None:
    global _search
    library = plugin.runtime()
    with _lock:
        if _search is not None and _search.is_alive():
            _search.options = options
            return
        functions = ("PyGILState_Check", "PyEval_SaveThread", "PyEval_RestoreThread")
        library.ios_tf_open_search(
            *(
                ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)
                for name in functions
            ),
            _PATIENCE_MS,
        )
        _search = _SearchThread(library, options)
        _search.start()


def _stop_search() -> None:
    global _search
    with _lock:
        if _search is not None:
            plugin.runtime().ios_tf_close_search()
            _search = None


def _restart_search() -> None:
    """Restarts the search thread in a forked child, to which fork does not copy it."""
    global _search, _lock
    _lock = threading.Lock()
    parent, _search = _search, None
    if parent is not None:
        _start_search(parent.options)


os.register_at_fork(after_in_child=_restart_search)
# Stops the search at exit, so that TensorFlow's threads do not wait for a search while
# the interpreter shuts down.
atexit.register(_stop_search)


def _take_string(address: int | None) -> str | None:
    content = plugin.take(address)
    return None if content is None else content.decode()
