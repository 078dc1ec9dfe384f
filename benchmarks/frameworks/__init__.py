"""Runs blocks on other frameworks' operators: the peers of the engine."""
