"""Calls in several threads."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_threads(function: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
    """Calls a function with each argument, all at once; returns the results.

    The first error of a call is raised when all calls have ended.
    """
    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(function, arguments))
