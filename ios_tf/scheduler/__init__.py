"""The inter-operator scheduler. It uses only Python and numpy, and no device."""

from ios_tf.scheduler.baselines import (
    BASELINES,
    greedy_schedule,
    sequential_schedule,
    split_schedules,
)
from ios_tf.scheduler.forecasts import Forecast
from ios_tf.scheduler.partition import partition
from ios_tf.scheduler.problem import Load, Problem
from ios_tf.scheduler.pruning import PAPER_PRUNING, UNPRUNED, Pruning
from ios_tf.scheduler.schedule import Schedule, Stage, Strategy
from ios_tf.scheduler.search import (
    Bounds,
    CostModel,
    Progress,
    SearchOptions,
    UnknownLatencyError,
    search,
)
from ios_tf.scheduler.state_space import BlockTooLargeError
from ios_tf.scheduler.units import computed_by_readers, make_units, matching_units
from ios_tf.strategies import STRATEGIES

__all__ = [
    "BASELINES",
    "PAPER_PRUNING",
    "STRATEGIES",
    "UNPRUNED",
    "BlockTooLargeError",
    "Bounds",
    "CostModel",
    "Forecast",
    "Load",
    "Problem",
    "Progress",
    "Pruning",
    "Schedule",
    "SearchOptions",
    "Stage",
    "Strategy",
    "UnknownLatencyError",
    "computed_by_readers",
    "greedy_schedule",
    "make_units",
    "matching_units",
    "partition",
    "search",
    "sequential_schedule",
    "split_schedules",
]
