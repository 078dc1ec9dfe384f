"""Checks that a converted function computes the same as the original function.

TensorFlow runs the original function without optimizers. These variants run with the
same inputs:

* "plain" and "plugin": the result of `convert`, without and with the plugin
* "optimize": the frozen graph with schedules from `enable`
* "wait": the frozen graph, which `enable` has prepared for later schedules
* with Settings.end_to_end, also the function saved, converted and loaded again

The schedules are random; nothing is measured. With Settings.precision of "bfloat16",
the graph is checked by bfloat16.py instead.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from ios_tf.model import frozen_graphs, graph_optimizer
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.tuning import on_the_fly
from random_graphs.bfloat16 import check_bfloat16
from random_graphs.comparison import Comparison
from random_graphs.conversion import convert
from random_graphs.differences import Result, conversion_fails
from random_graphs.end_to_end import EndToEnd
from random_graphs.program import Program, Settings
from random_graphs.sessions import (
    OFF,
    ON,
    Feed,
    Outcome,
    Session,
    config_of,
    feeds_of,
    is_dynamic,
    ran,
    stock_sessions,
)


def check_program(
    program: Program, say: Callable[[str], None] = lambda phase: None
) -> Result:
    """Checks a program; see `check`."""
    return check(program.function(), program.settings, say)


def run_stock(
    program: Program, say: Callable[[str], None] = lambda phase: None
) -> Result:
    """Runs a program with TensorFlow's optimizers, which may end the process."""
    say("freeze")
    concrete = program.function().get_concrete_function()
    frozen = frozen_graphs.freeze("random", concrete)
    say("stock")
    for session in stock_sessions(frozen):
        for feed in feeds_of(frozen, program.settings):
            session.run(feed)
        session.close()
    return Result()


def reproduce(function: Any, **settings: Any) -> None:
    """Prints the differences of a function; reported programs call this function."""
    result = check(function, Settings(**settings))
    print(result)
    sys.exit(bool(result.differences))


def check(
    function: Any,
    settings: Settings,
    say: Callable[[str], None] = lambda phase: None,
) -> Result:
    """Compares a tf.function of a fixed signature with its conversion.

    Args:
      function: a tf.function that returns a dict.
      settings: the inputs and batch sizes to compare on.
      say: gets the name of each phase when it starts.
    """
    result = Result()
    say("trace")
    concrete = function.get_concrete_function()
    if settings.precision == "bfloat16":
        with tempfile.TemporaryDirectory(prefix="ios_tf_random_") as directory:
            return check_bfloat16(concrete, settings, say, directory)
    say("freeze")
    try:
        frozen = frozen_graphs.freeze("random", concrete)
    except Exception as error:
        result.differences.append(conversion_fails(error, "convert"))
        return result
    result.operations.update(node.op for node in frozen.graph_def.node)
    feeds = list(feeds_of(frozen, settings))
    say("original")
    original = Session(frozen, frozen.graph_def, config_of(None))
    expected = [original.run(feed) for feed in feeds]
    settings = _possible(frozen, settings, feeds, expected)
    if not settings.batch_sizes:
        result.skipped += 1
        original.close()
        return result
    check_one = Comparison(frozen, original, settings, result)
    with tempfile.TemporaryDirectory(prefix="ios_tf_random_") as directory:
        say("convert")
        try:
            rewritten = convert(frozen, settings, result)
        except Exception as error:
            rewritten = None
            if _has_shapes(frozen, settings):
                check_one.conversion_fails(error, "convert")
            else:
                result.skipped += 1
        # "wait": TensorFlow runs its own nodes, with an IosRegion node beside them.
        modes = [
            (
                mode,
                frozen.graph_def,
                config_of(
                    ON,
                    on_the_fly.session_config(
                        cache_dir=os.path.join(directory, mode),
                        on_miss=on_miss,
                        batch_size=settings.batch_sizes[0],
                    ),
                ),
            )
            for mode, on_miss in (("optimize", "greedy"), ("wait", "skip"))
        ]
        if rewritten is not None:
            modes = [
                ("plain", rewritten, config_of(OFF)),
                ("plugin", rewritten, config_of(ON)),
                *modes,
            ]
        for mode, graph_def, config in modes:
            say(mode)
            session = Session(frozen, graph_def, config)
            for feed, outcome in zip(feeds, expected, strict=True):
                check_one(mode, feed, outcome, session.run)
            session.close()
        if settings.end_to_end:
            result.end_to_end = True
            end_to_end = EndToEnd(concrete, function, settings, directory)
            end_to_end.check(list(zip(feeds, expected, strict=True)), check_one, say)
    original.close()
    return result


def _has_shapes(frozen: FrozenSignature, settings: Settings) -> bool:
    """True if TensorFlow can infer the shapes of a signature's own graph.

    If it cannot, `ios_tf.convert` copies the model, so only the copy is checked.
    """
    try:
        graph_optimizer.check_shapes(frozen, settings.batch_sizes)
    except graph_optimizer.NotOptimizedError:
        return False
    return True


def _possible(
    frozen: FrozenSignature,
    settings: Settings,
    feeds: Sequence[Feed],
    outcomes: Sequence[Outcome],
) -> Settings:
    """The settings without the batch sizes that the original refuses."""
    dynamic = [name for name, spec in frozen.inputs.items() if is_dynamic(spec)]
    run = [f for f, o in zip(feeds, outcomes, strict=True) if ran(o)]
    if not dynamic:
        return settings if run else dataclasses.replace(settings, batch_sizes=())
    sizes = {feed[name].shape[0] for feed in run for name in dynamic}
    possible = tuple(size for size in settings.batch_sizes if size in sizes)
    # If all of these sizes fail, use one that runs, as a user would.
    possible = possible or tuple(sorted(sizes - {0}))[:1]
    return dataclasses.replace(settings, batch_sizes=possible)
