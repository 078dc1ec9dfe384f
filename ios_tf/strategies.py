"""The names of the search strategies, and of what `enable` does with unknown blocks."""

# auto: every stage is concurrent or a merge, whichever is faster. A Searcher also
#   compares splits of the whole block with the search's result.
# parallel: every stage is concurrent.
# merge: every stage is one operator or a merge.
# greedy, sequential: see scheduler/baselines.py.
STRATEGIES = ("auto", "parallel", "merge", "greedy", "sequential")
SLOWEST_FIRST = ("sequential", "greedy", "merge", "parallel", "auto")
# See EnableOptions in options.py.
ON_MISS = ("skip", "greedy", "search")
