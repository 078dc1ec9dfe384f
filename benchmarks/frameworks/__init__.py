"""Blocks on other frameworks' own operators: what the peers of the engine run."""
