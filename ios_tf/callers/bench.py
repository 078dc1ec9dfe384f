"""Measures how many images per second a model answers when many callers call it.

Each framework runs in a process of its own. The processes take turns in each round, so
that a disturbance of the machine affects all frameworks. The result has medians over
the rounds.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ios_tf.callers.forms import Forms, store_inputs
from ios_tf.callers.frameworks import FRAMEWORKS, STOCK, Model
from ios_tf.callers.loops import Measurement
from ios_tf.callers.result import Result, Row
from ios_tf.callers.worker import Worker
from ios_tf.conversion.convert import convert
from ios_tf.conversion.output_differences import compare_outputs
from ios_tf.errors import UserError, first_line
from ios_tf.model import saved_models
from ios_tf.model.inputs import (
    accepted_inputs,
    image_size_of,
    parse_inputs,
    without_open_batch,
)
from ios_tf.model.loading import saved_model
from ios_tf.model.temp_dirs import step_directory
from ios_tf.native import devices, malloc, plugin
from ios_tf.options import BenchOptions
from ios_tf.processes import ChildError
from ios_tf.tuning.progress import Progress


def bench(model: Any, options: BenchOptions) -> Result:
    """Measures a model with several callers in each installed framework.

    Each round measures every framework with every number of callers.

    Raises:
      UserError: as for `ios_tf.convert`, or TensorFlow or the converted model cannot
        be measured.
    """
    chosen = devices.choose(options.device, options.log)
    if chosen.kind != "cpu":
        raise UserError(
            f"--callers measures on the CPU only, but the device is {chosen.kind}. Use "
            "--device=cpu"
        )
    failures: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(saved_model(model, options.weights, options.log))
        directory = stack.enter_context(step_directory())
        loaded = saved_models.load(source, options.tags)
        signature = saved_models.choose_signature(options.signature, loaded)
        function = loaded.signatures[signature]
        # Checks the inputs now, so that the user learns of wrong inputs before the
        # search, which takes long.
        arguments, outputs = accepted_inputs(
            function, options.batch_size, parse_inputs(options.inputs)
        )
        images = _images_per_call(arguments, options.batch_size)
        sizes = {images}
        if options.batching:
            _check_open_batch(signature, function)
            sizes.add(images * max(options.caller_counts))
        stored = store_inputs(arguments, directory)
        base = Model(source, stored, list(outputs), signature, options.tags, images)
        forms = Forms(base, directory)
        report = convert(
            source,
            forms.converted,
            batch_size=sorted(sizes),
            image_size=image_size_of(function.structured_input_signature[1], arguments),
            device=chosen.kind,
            tags=options.tags,
            signatures=[signature],
            cache_dir=options.cache_dir,
            keep_slower=True,
            progress=options.progress,
            log=options.log,
        )
        if report.verdict == "copied":
            options.log(
                "the conversion did not change the model, so the rows of IOS-TF show "
                "TensorFlow's own speed"
            )
        del loaded, function
        malloc.release_unused()
        workers = _start(base, forms, options, stack, failures)
        rows = _measure(workers, options, images, failures)
    expected = workers[STOCK].outputs
    return Result(
        model=str(model),
        signature=signature,
        device=plugin.device_fingerprint(chosen.engine),
        batch_size=images,
        options=options,
        rows=rows,
        differences={
            key: compare_outputs(worker.outputs, expected)[0] or 0.0
            for key, worker in workers.items()
        },
        missing={
            key: missing
            for key, one in FRAMEWORKS.items()
            if (missing := one.missing())
        },
        failures=failures,
    )


def _start(
    model: Model,
    forms: Forms,
    options: BenchOptions,
    stack: contextlib.ExitStack,
    failures: dict[str, str],
) -> dict[str, Worker]:
    """Starts a process for each installed framework; `stack` ends the processes."""
    workers = {}
    for key, framework in FRAMEWORKS.items():
        if framework.missing() or (framework.batching and not options.batching):
            continue
        options.log(f"loading the model in {framework.name}")
        try:
            path = forms.path(framework.form)
        # Exporters raise many kinds of errors for unsupported operators.
        except Exception as error:
            _note_failure(key, first_line(error), failures)
            continue
        try:
            workers[key] = Worker(
                key, dataclasses.replace(model, path=path, batching=framework.batching)
            )
        except ChildError as error:
            _note_failure(key, str(error), failures)
        else:
            stack.callback(workers[key].close)
    return workers


def _measure(
    workers: dict[str, Worker],
    options: BenchOptions,
    batch_size: int,
    failures: dict[str, str],
) -> list[Row]:
    """Measures all frameworks in turn; leaves out those that fail."""
    measurements: dict[tuple[int, str], list[Measurement]] = {
        (callers, key): [] for callers in options.caller_counts for key in workers
    }
    rounds = options.rounds
    shown = Progress(options.progress)
    with shown.phase("measure", measures=True):
        for number in range(rounds):
            for (callers, key), found in measurements.items():
                if key in failures:
                    continue
                try:
                    found.append(
                        workers[key].measure(
                            callers, options.seconds, options.rate, number
                        )
                    )
                except ChildError as error:
                    _note_failure(key, str(error), failures)
            shown.update((number + 1) / rounds, f"{number + 1} of {rounds} rounds")
    return [
        Row(
            key,
            callers,
            sum(len(one.latencies_ms) for one in found),
            sum(one.unanswered for one in found),
            [one.figures(batch_size) for one in found],
        )
        for (callers, key), found in measurements.items()
        if key not in failures
    ]


def _note_failure(key: str, reason: str, failures: dict[str, str]) -> None:
    """Stores the reason why a framework is not measured.

    Raises:
      UserError: the framework is TensorFlow, with or without IOS-TF.
    """
    framework = FRAMEWORKS[key]
    if not framework.packages:
        raise UserError(f"{framework.name} cannot be measured: {reason}")
    failures[key] = reason


def _images_per_call(inputs: Mapping[str, tf.Tensor], batch_size: int) -> int:
    """Returns the first dimension of the inputs, or `batch_size` if there are several.

    Raises:
      UserError: the fixed batch size of the inputs is not `batch_size`.
    """
    sizes = {int(x.shape[0]) for x in inputs.values() if x.shape.rank}
    images = sizes.pop() if len(sizes) == 1 else batch_size
    if batch_size not in (1, images):
        raise UserError(
            f"the inputs have {images} images each, but --batch_size is {batch_size}. "
            "Run the command without --batch_size"
        )
    return images


def _check_open_batch(signature: str, function: Any) -> None:
    """Raises UserError if calls of a signature cannot be combined into batches."""
    if closed := without_open_batch(function):
        tensor, shape = closed
        raise UserError(
            f"--batching needs a variable batch size (None), but {tensor} of "
            f"signature {signature!r} has the shape {shape}. Run the command without "
            "--batching"
        )
