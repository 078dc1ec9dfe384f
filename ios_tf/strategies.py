"""The names of the search strategies, and the values of two other options."""

from typing import Literal, get_args

# auto: every stage is concurrent or a merge, whichever is faster. The class Searcher
#   also compares the result with splits of the whole block. parallel: every stage is
#   concurrent. merge: every stage is one operator or a merge. greedy, sequential: see
#   scheduler/baselines.py.
StrategyName = Literal["auto", "parallel", "merge", "greedy", "sequential"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
SLOWEST_FIRST: tuple[StrategyName, ...] = (
    "sequential",
    "greedy",
    "merge",
    "parallel",
    "auto",
)
# The values of the option `on_miss`; see EnableOptions in options.py.
OnMiss = Literal["skip", "greedy", "search"]
ON_MISS: tuple[OnMiss, ...] = get_args(OnMiss)
# The values of the option `precision`; see ModelOptions in options.py.
PrecisionName = Literal["float32", "bfloat16", "auto"]
PRECISIONS: tuple[PrecisionName, ...] = get_args(PrecisionName)
