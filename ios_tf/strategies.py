"""The names of the search strategies, and the values of `enable`'s option `on_miss`."""

# auto: every stage is concurrent or a merge, whichever is faster. The class Searcher
#   also compares the result with splits of the whole block. parallel: every stage is
#   concurrent. merge: every stage is one operator or a merge. greedy, sequential: see
#   scheduler/baselines.py.
STRATEGIES = ("auto", "parallel", "merge", "greedy", "sequential")
SLOWEST_FIRST = ("sequential", "greedy", "merge", "parallel", "auto")
# The values of the option `on_miss`; see EnableOptions in options.py.
ON_MISS = ("skip", "greedy", "search")
