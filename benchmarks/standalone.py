"""Models, parsers and exit codes that several commands share."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence

from ios_tf.errors import UserError
from ios_tf.native import engine
from ios_tf.options import number
from ios_tf.validation import ENGINE_DEVICES, as_argument, batch_sizes, engine_device


def exit_code(
    run: Callable[[argparse.Namespace], int], options: argparse.Namespace
) -> int:
    """Returns the result of `run`, or 1 after printing its error as one line."""
    try:
        return run(options)
    except (UserError, engine.EngineError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def add_engine_device(parser: argparse.ArgumentParser, default: str = "cpu") -> None:
    """Adds --device, a device of the engine."""
    parser.add_argument(
        "--device",
        type=as_argument(functools.partial(engine_device, "device")),
        default=default,
        metavar="DEVICE",
        help=f"{ENGINE_DEVICES}, with CUDA's GPU numbers; default: {default}",
    )


def add_batch_sizes(
    parser: argparse.ArgumentParser, text: str, default: Sequence[int] | None = None
) -> None:
    """Adds --batch_sizes, a list of numbers; `text` describes the default."""

    def parsed(value: str) -> list[int]:
        return batch_sizes("batch_sizes", [number(size) for size in value.split(",")])

    parser.add_argument(
        "--batch_sizes",
        type=as_argument(parsed),
        default=default,
        metavar="A,B",
        help=f"default: {text}",
    )


@contextlib.contextmanager
def saved_model_of(name: str) -> Iterator[str]:
    """Yields the SavedModel of a network of the zoo, or of a model of `convert`."""
    from benchmarks.zoo.registry import networks
    from ios_tf.model.loading import KERAS_PREFIX, saved_model

    build = networks().get(name)
    if not build or name.startswith(KERAS_PREFIX):
        with saved_model(name) as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        build().save(directory)
        yield directory
