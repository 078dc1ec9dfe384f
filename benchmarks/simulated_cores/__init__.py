"""Machines with many cores, simulated: callers that share the engine's threads.

The engine's pool of threads is compiled for a simulated machine. Its decisions are
real; cores, clock, sleep and cache lines are simulated.
docs/benchmarks/callers_simulation.md names the assumptions and shows the results.
"""

from benchmarks.simulated_cores.callers import (
    Load,
    Result,
    build,
    ideal_calls_per_s,
    simulate,
)

__all__ = ["Load", "Result", "build", "ideal_calls_per_s", "simulate"]
