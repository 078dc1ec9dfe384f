"""The names of the search strategies."""

# both: every stage is concurrent or merge, whichever is faster. A Searcher also
# compares splits of the whole block with what such a search finds. parallel: all are
# concurrent. merge: stages are one operator or a merge. greedy and sequential: see
# scheduler/baselines.py.
STRATEGIES = ("both", "parallel", "merge", "greedy", "sequential")
