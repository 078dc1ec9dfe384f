"""python -m benchmarks zoo: networks with random weights, converted and measured."""

from benchmarks.zoo.command import add_arguments, run

__all__ = ["add_arguments", "run"]
