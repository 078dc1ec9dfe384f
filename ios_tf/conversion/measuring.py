"""Searchers and reports for the options of `convert` and `optimize`."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

import tensorflow as tf

from ios_tf.conversion import phases
from ios_tf.conversion.error_budget import requested_precision
from ios_tf.conversion.report import Report, SizeReport
from ios_tf.conversion.report_document import options_json
from ios_tf.cost.cost_model import Measurement, NetworkCostModel
from ios_tf.cost.database import open_database
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.errors import UserError
from ios_tf.fleet.cost_model import FleetNetworkCostModel
from ios_tf.fleet.ray_fleet import ray_connection
from ios_tf.native import devices, plugin
from ios_tf.native.graph import FLOAT32
from ios_tf.options import ModelOptions
from ios_tf.reasons import Decision, Reason
from ios_tf.scheduler import Load, Pruning
from ios_tf.tuning.algorithms import allowed
from ios_tf.tuning.cache import ScheduleCache, directory_of, latency_database
from ios_tf.tuning.parts import Patterns
from ios_tf.tuning.progress import Progress
from ios_tf.tuning.searcher import NetworkSearcher, Searcher
from ios_tf.tuning.settings import SearchSettings

_one_at_a_time = threading.RLock()


def _reset_after_fork() -> None:
    """Replaces the lock in a forked child, which lacks the thread that may hold it."""
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


os.register_at_fork(after_in_child=_reset_after_fork)


@contextlib.contextmanager
def searcher_for(options: ModelOptions) -> Iterator[NetworkSearcher]:
    """Makes a searcher, which caches its schedules.

    The searcher measures on this machine. With the option `ray`, a Ray cluster of
    identical machines measures the blocks.

    Only one searcher exists at a time, because another one would disturb the
    measurements, and because comparisons switch the plugin on and off for all threads.

    Raises:
      UserError: the device does not exist, a distribution strategy is active, or the
        Ray cluster cannot be used.
    """
    cache_dir = directory_of(options.cache_dir)
    _check_distribution()
    with _one_at_a_time:
        device = devices.choose(options.device, options.log)
        devices.limit_threads()
        if device.kind == "gpu" and options.caller_counts != [1]:
            raise UserError(
                "schedules for several callers are supported only on a CPU. Use "
                "callers=1 or device=cpu"
            )
        name = plugin.device_fingerprint(device.engine)
        database = open_database(latency_database(cache_dir), name, options.fresh)
        measurement = Measurement(
            options.warmup_runs, options.runs, options.sample_count
        )
        with contextlib.ExitStack() as stack:
            stack.callback(database.close)
            cost_model: NetworkCostModel = MeasuredCostModel(device, measurement)
            if options.ray is not None:
                connection = stack.enter_context(
                    ray_connection(options.ray, device.engine, name, measurement)
                )
                cost_model = FleetNetworkCostModel(connection, measurement, cost_model)
                stack.callback(cost_model.close)
            yield Searcher(
                cost_model,
                SearchSettings(
                    options.strategy,
                    Pruning(options.max_group_size, options.max_groups),
                    Patterns(
                        tuple(options.group_patterns), tuple(options.block_end_patterns)
                    ),
                    allowed(device.kind, options.winograd),
                ),
                ScheduleCache(cache_dir, name, options.fresh),
                database,
                options.time_limit,
                Progress(options.progress, phases.WEIGHTS),
            )


def loads_of(options: ModelOptions) -> list[int]:
    """The loads to schedule for: each batch size with each number of callers."""
    return [
        Load(size, callers)
        for size in options.batch_sizes
        for callers in options.caller_counts
    ]


def empty_report(
    options: ModelOptions,
    searcher: NetworkSearcher,
    output: str | None,
    model: str | None,
) -> Report:
    """The report of a conversion that begins.

    `output` is the directory to write, and `model` is the model as the caller named it.
    """
    device = searcher.cost_model.device
    report = Report(
        output,
        plugin.device_fingerprint(device.engine),
        {load: SizeReport() for load in loads_of(options)},
        model=model,
        options=options_json(options),
        device_kind=device.kind,
        lanes=searcher.cost_model.lanes,
    )
    if options.precision != "auto" or requested_precision(options, device) != FLOAT32:
        return report
    text = "float32 operators do not compute in bfloat16, because "
    if device.kind == "cpu":
        text += "this processor does not have bfloat16 arithmetic"
    else:
        text += "bfloat16 is supported only on a CPU"
    return report.with_decisions(Decision(Reason.FULL_PRECISION_SIGNATURE, text))


def _check_distribution() -> None:
    """Raises UserError inside the scope of a distribution strategy."""
    strategy = tf.distribute.get_strategy()
    if tf.distribute.has_strategy() and not isinstance(
        strategy, tf.distribute.OneDeviceStrategy
    ):
        raise UserError(
            "a model cannot be converted inside the scope of a "
            f"{type(strategy).__name__}. Convert it outside of the scope"
        )
