"""The gain of merged convolutions alone: converted models on stock TensorFlow.

    python -m benchmarks stock MODEL [--batch_size=N] [--rounds=N] [--json=FILE]

Measures the following in turn, in one process, with the plugin off: the original model,
its frozen graph, the result of `ios_tf convert --strategy=merge`, and its frozen graph
with unmeasured merges. These are either all merges of convolutions with equal kernels,
or all legal merges. The engine does not take part, so stock TensorFlow Serving can run
all of these models.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks.standalone import exit_code, measured, model_parser
from ios_tf.conversion.bench import FROZEN, STOCK, Result, measure
from ios_tf.conversion.convert import convert
from ios_tf.errors import UserError
from ios_tf.files import write_json
from ios_tf.model import frozen_graphs, graph_optimizer, saved_models
from ios_tf.model.inputs import example_inputs
from ios_tf.model.loading import saved_model
from ios_tf.scheduler import Problem, Schedule, Stage
from ios_tf.scheduler.problem import operators_of


def bench_stock(
    model: Any,
    *,
    batch_size: int = 1,
    rounds: int = 20,
    signature: str | None = None,
    cache_dir: str | None = None,
    progress: bool = False,
    log: Callable[[str], None] = lambda line: None,
) -> Result:
    """Measures a model and its merged forms on TensorFlow alone.

    Switches the plugin off for the rest of the process.

    Args:
      model, batch_size, rounds, signature, cache_dir, progress, log: as for
        `ios_tf.conversion.bench.bench`.

    Raises:
      UserError: as for `ios_tf.conversion.bench.bench`.
    """
    tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": False})
    with (
        saved_model(model, log=log) as source,
        tempfile.TemporaryDirectory(prefix="ios_tf_") as directory,
    ):
        stock = saved_models.load(source)
        signature = saved_models.choose_signature(signature, stock)
        function = stock.signatures[signature]
        frozen = graph_optimizer.fold_constants(
            frozen_graphs.freeze(signature, function)
        )
        functions = {
            STOCK: function,
            FROZEN: frozen_graphs.rebuild(frozen, frozen.graph_def),
            "merged, equal kernels": _merged(frozen, batch_size, equal_kernels=True),
            "merged, all": _merged(frozen, batch_size, equal_kernels=False),
        }
        output = os.path.join(directory, "converted")
        report = convert(
            source,
            output,
            batch_size=batch_size,
            strategy="merge",
            signatures=[signature],
            cache_dir=cache_dir,
            keep_slower=True,
            progress=progress,
        )
        log(f"the converted model has {report.sizes[batch_size].merged} merge stages")
        functions["converted"] = tf.saved_model.load(output).signatures[signature]
        inputs = example_inputs(function, batch_size)
        rows = measure(functions, inputs, rounds, progress)
    return Result(str(model), signature, report.device, batch_size, rows)


def merge_everything(problem: Problem, equal_kernels: bool = False) -> Schedule:
    """Returns a schedule with all legal merges; other operators run one by one.

    Args:
      problem: the block.
      equal_kernels: merge only convolutions of equal kernel size. Otherwise, smaller
        kernels are padded with zeros, which costs extra multiplications.
    """
    classes = list(problem.merge_classes)
    if equal_kernels:
        kernels: dict[tuple[int, str], int] = {}
        for number, members in enumerate(classes):
            for i in operators_of(members):
                kernel = str(problem.block["operators"][i].get("kernel"))
                kernels[number, kernel] = kernels.get((number, kernel), 0) | 1 << i
        classes = [members for members in kernels.values() if members.bit_count() > 1]
    stages, done = [], 0
    for i in range(len(problem)):
        if done >> i & 1:
            continue
        # All members of a class read the same tensor, so they are ready together.
        merge = next((m for m in classes if m >> i & 1 and not m & done), 0)
        stages.append(
            Stage.merge(merge) if merge else Stage.concurrent(problem, 1 << i)
        )
        done |= merge or 1 << i
    return Schedule(tuple(stages), problem.signature)


def _merged(
    frozen: frozen_graphs.FrozenSignature, batch_size: int, equal_kernels: bool
) -> Any:
    problems = graph_optimizer.collect(frozen, batch_size).problems
    if not problems:
        raise UserError("the model has no convolution that the engine can run")
    schedules = {
        signature: merge_everything(problem, equal_kernels)
        for signature, problem in problems.items()
    }
    return frozen_graphs.rebuild(
        frozen, graph_optimizer.rewrite(frozen, schedules, [batch_size])
    )


def main() -> int:
    parser = model_parser("Benchmarks stock TensorFlow.", rounds=20)
    return exit_code(_run, parser.parse_args())


def _run(options: argparse.Namespace) -> int:
    result = measured(bench_stock, options)
    print(result.table())
    if options.json:
        command = f"python -m benchmarks stock {options.model}"
        content = {
            **result.to_json(),
            "command": f"{command} --batch_size={options.batch_size}",
        }
        write_json(options.json, content)
    return 0
