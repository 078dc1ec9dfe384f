"""The inter-operator scheduler: pure Python and numpy, no TensorFlow, no device."""

from ios_tf.scheduler.baselines import greedy_schedule, sequential_schedule
from ios_tf.scheduler.complexity import Complexity, complexity
from ios_tf.scheduler.problem import Problem
from ios_tf.scheduler.pruning import PAPER_PRUNING, UNPRUNED, Pruning
from ios_tf.scheduler.schedule import Schedule, Stage, Strategy, validate
from ios_tf.scheduler.search import (
    STRATEGIES,
    CostModel,
    Progress,
    SearchResult,
    search,
)
from ios_tf.scheduler.state_space import BlockTooLargeError

__all__ = [
    "PAPER_PRUNING",
    "STRATEGIES",
    "UNPRUNED",
    "BlockTooLargeError",
    "Complexity",
    "CostModel",
    "Problem",
    "Progress",
    "Pruning",
    "Schedule",
    "SearchResult",
    "Stage",
    "Strategy",
    "complexity",
    "greedy_schedule",
    "search",
    "sequential_schedule",
    "validate",
]
