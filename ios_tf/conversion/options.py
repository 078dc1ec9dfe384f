"""The target and settings of a search: arguments of `convert` and `optimize`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ios_tf import old_names, validation
from ios_tf.conversion.report import Report, SizeReport
from ios_tf.conversion.samples import samples_of
from ios_tf.cost import Measurement, open_database
from ios_tf.cost.measured import MeasuredCostModel
from ios_tf.errors import UserError
from ios_tf.native import devices, plugin
from ios_tf.native.graph import USUAL_IMAGE_SIZE
from ios_tf.scheduler import STRATEGIES, Pruning
from ios_tf.tuning.algorithms import allowed
from ios_tf.tuning.cache import ScheduleCache, directory_of, latency_database
from ios_tf.tuning.parts import Patterns
from ios_tf.tuning.searcher import NetworkSearcher, Searcher
from ios_tf.tuning.settings import BASELINES, SearchSettings

_one_at_a_time = threading.RLock()


def _reset_after_fork() -> None:
    """Makes a new lock in a forked child, where no thread would release the old one."""
    global _one_at_a_time
    _one_at_a_time = threading.RLock()


os.register_at_fork(after_in_child=_reset_after_fork)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """The target and settings of a search: the arguments of `convert` with these names.

    Raises:
      UserError: a value is not valid.
    """

    batch_size: int | Sequence[int] = 1
    image_size: int | Sequence[int] = USUAL_IMAGE_SIZE
    device: str = "auto"
    strategy: str = "auto"
    max_groups: int = 8
    max_group_size: int = 3
    time_limit: float = 300.0
    group_patterns: Sequence[str] = ()
    block_end_patterns: Sequence[str] = ()
    cache_dir: str | None = None
    warmup_runs: int = 2
    runs: int = 3
    sample_count: int = 3
    keep_slower: bool = False
    winograd: bool = True
    fresh: bool = False
    samples: Any = None

    def __post_init__(self) -> None:
        sizes = self.batch_sizes
        if not sizes:
            raise UserError("batch_size must list at least one batch size")
        for size in sizes:
            if sizes.count(size) > 1:
                raise UserError(f"batch_size lists {size} more than once")
        _ = self.height_and_width
        old_names.check_value("strategy", self.strategy)
        if self.strategy not in STRATEGIES:
            raise UserError(
                f"strategy must be one of {', '.join(STRATEGIES)}, "
                f"not {self.strategy!r}"
            )
        validation.seconds("time_limit", self.time_limit)
        directory_of(self.cache_dir)
        self._patterns()
        self._pruning()
        self._measurement()
        object.__setattr__(self, "samples", samples_of(self.samples))

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> ConvertOptions:
        """The options among the arguments of a function."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: arguments[name] for name in names})

    @property
    def batch_sizes(self) -> list[int]:
        """The batch sizes to schedule for, in ascending order."""
        given: Any = self.batch_size  # a user may give anything
        several = isinstance(given, (Sequence, np.ndarray))
        several = several and not isinstance(given, (str, bytes))
        # A numpy array without dimensions is a number.
        several = several and getattr(given, "ndim", 1) > 0
        sizes = list(given) if several else [given]
        return sorted(validation.whole("batch_size", size) for size in sizes)

    @property
    def height_and_width(self) -> tuple[int, int]:
        """The height and width of images whose size a signature leaves open."""
        given: Any = self.image_size
        sizes = given if isinstance(given, (Sequence, np.ndarray)) else [given] * 2
        if isinstance(given, (str, bytes)) or len(sizes) != 2:
            raise UserError(
                "image_size must be a height and a width, or one number for both"
            )
        height, width = (validation.whole("image_size", size) for size in sizes)
        return height, width

    def _patterns(self) -> Patterns:
        return Patterns(
            tuple(validation.strings("group_patterns", self.group_patterns)),
            tuple(validation.strings("block_end_patterns", self.block_end_patterns)),
        )

    def _pruning(self) -> Pruning:
        return Pruning(self.max_group_size, self.max_groups)

    def _measurement(self) -> Measurement:
        return Measurement(self.warmup_runs, self.runs, self.sample_count)

    @contextlib.contextmanager
    def searcher(
        self, log: Callable[[str], None], progress: bool
    ) -> Iterator[NetworkSearcher]:
        """A searcher that measures on this machine and caches the schedules it finds.

        Only one searcher exists at a time. Another one would disturb the measurements,
        and comparisons switch the plugin on and off for all threads.

        Raises:
          UserError: the device does not exist, or a distribution strategy is active.
        """
        _check_strategy()
        with _one_at_a_time:
            device = devices.choose(self.device, log)
            name = plugin.device_fingerprint(device.engine)
            cache_dir = directory_of(self.cache_dir)
            database = open_database(latency_database(cache_dir), name, self.fresh)
            with contextlib.closing(database):
                yield Searcher(
                    MeasuredCostModel(device, self._measurement()),
                    SearchSettings(
                        self.strategy,
                        self._pruning(),
                        self._patterns(),
                        allowed(device.kind, self.winograd),
                    ),
                    ScheduleCache(cache_dir, name, self.fresh),
                    database,
                    validation.seconds("time_limit", self.time_limit),
                    progress,
                )

    @property
    def keeps_all(self) -> bool:
        """Whether to keep slower regions: on request, or for a baseline strategy."""
        return self.keep_slower or self.strategy in BASELINES

    def report(self, searcher: NetworkSearcher, output: str | None) -> Report:
        """An empty report for a conversion with `searcher`."""
        device = plugin.device_fingerprint(searcher.cost_model.device.engine)
        sizes = {size: SizeReport() for size in self.batch_sizes}
        return Report(output, device, sizes)


def _check_strategy() -> None:
    """Raises UserError in a scope that makes variables for several devices."""
    strategy = tf.distribute.get_strategy()
    if tf.distribute.has_strategy() and not isinstance(
        strategy, tf.distribute.OneDeviceStrategy
    ):
        raise UserError(
            "a model cannot be converted inside the scope of a "
            f"{type(strategy).__name__}; convert it outside of the scope"
        )
