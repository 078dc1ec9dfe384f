"""Measures models that many threads of a process call at once."""
