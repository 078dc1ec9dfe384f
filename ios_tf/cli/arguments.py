"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Sequence

from absl.flags import argparse_flags

from ios_tf import models
from ios_tf.errors import UserError
from ios_tf.printable import printable
from ios_tf.strategies import STRATEGIES
from ios_tf.validation import as_argument, device_name, listed, pattern, whole

MODEL = (
    "a SavedModel directory, a .keras or .h5 file, keras:NAME (keras.applications), or "
    f"models:NAME ({', '.join(models.NETWORKS)})"
)
CONVERTED = "a converted SavedModel"

Parser = argparse_flags.ArgumentParser


def say(line: str) -> None:
    """Prints a line of information at once. A closed pipe does not end the work."""
    try:
        print(printable(line), flush=True)
    except BrokenPipeError:
        forget_output()


def forget_output() -> None:
    """Discards buffered and future output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command(
    commands: argparse._SubParsersAction,
    name: str,
    run: Callable[[argparse.Namespace], int | None],
    text: str,
    description: str | None = None,
) -> Parser:
    """Adds a parser for a command.

    Args:
      commands: the commands to add it to.
      name: the command's name.
      run: called with the parsed arguments; returns an exit code, or None for 0.
      text: the description in the list of commands.
      description: the description in the command's own help; by default `text`.

    Returns:
      The parser.
    """
    parser: Parser = commands.add_parser(
        name, help=text, description=description or f"{text[0].upper()}{text[1:]}."
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "--traceback", action="store_true", help="show where an error comes from"
    )
    return parser


def add_model(parser: Parser, text: str = MODEL) -> None:
    parser.add_argument("model", metavar="MODEL", help=text)
    parser.add_argument(
        "--tags",
        type=as_argument(functools.partial(listed, "tags")),
        metavar="A,B",
        help="tags of the MetaGraph, such as serve,gpu, if MODEL has several",
    )


def add_signature(
    parser: Parser,
    text: str = "signature to use; default: serving_default or the only one",
) -> None:
    parser.add_argument("--signature", metavar="NAME", help=text)


def add_weights(parser: Parser) -> None:
    parser.add_argument(
        "--weights",
        choices=("imagenet",),
        help="weights of keras:NAME; default: random weights",
    )


def add_device(parser: Parser) -> None:
    parser.add_argument(
        "--device",
        type=as_argument(device_name),
        default="auto",
        metavar="DEVICE",
        help="cpu, gpu, gpu:1 …, as TensorFlow counts them; default: auto, the GPU if "
        "there is one and the CUDA libraries can be loaded",
    )


def add_batch_size(
    parser: Parser, text: str = "batch size to use if the model's is dynamic"
) -> None:
    add_whole(parser, "batch_size", 1, 1, text)


def add_batch_sizes(parser: Parser) -> None:
    parser.add_argument(
        "--batch_size",
        type=_batch_sizes,
        default=[1],
        metavar="N,M",
        help="batch sizes to schedule for, such as 1,8,32, if the model's batch size "
        "is dynamic; a batch runs with the schedule of the nearest size; default: 1",
    )


def add_image_size(parser: Parser) -> None:
    parser.add_argument(
        "--image_size",
        type=_image_size,
        default=(224, 224),
        metavar="H,W",
        help="height and width to schedule for, or one number for both, if the model "
        "leaves them open; default: 224",
    )


def add_strategies(parser: Parser) -> None:
    parser.add_argument(
        "--strategies",
        type=_strategies,
        default=("sequential", "greedy", "merge", "parallel", "auto"),
        metavar="A,B",
        help="strategies to measure; default: sequential,greedy,merge,parallel,both",
    )


def add_pruning(parser: Parser, max_groups: int = 8, max_group_size: int = 3) -> None:
    add_whole(
        parser,
        "max_groups",
        max_groups,
        0,
        "largest number of groups per stage; 0 means no limit",
    )
    add_whole(
        parser,
        "max_group_size",
        max_group_size,
        0,
        "largest number of operators per group; 0 means no limit",
    )


def add_measurement(parser: Parser) -> None:
    add_whole(parser, "warmup_runs", 2, 0, "unmeasured runs before the measurements")
    add_whole(parser, "runs", 3, 1, "runs per measurement")
    add_whole(
        parser, "sample_count", 3, 1, "measurements per latency, which is their median"
    )


def add_winograd(parser: Parser) -> None:
    parser.add_argument(
        "--winograd",
        choices=("on", "off"),
        default="on",
        help="whether 3x3 convolutions may use Winograd's minimal filtering on a CPU "
        "where it is faster; its rounding errors differ; default: on",
    )


def add_patterns(parser: Parser) -> None:
    parser.add_argument(
        "--group",
        action="append",
        type=as_argument(pattern),
        default=[],
        metavar="REGEX",
        help="operators whose names match, with the same text in the capture groups, "
        "are scheduled as one operator (may be repeated)",
    )
    parser.add_argument(
        "--block_end",
        action="append",
        type=as_argument(pattern),
        default=[],
        metavar="REGEX",
        help="a block ends with each operator whose name matches (may be repeated)",
    )


def add_cache_dir(parser: Parser) -> None:
    parser.add_argument(
        "--cache_dir",
        metavar="DIR",
        help="directory of schedules and latencies; default: $IOS_TF_CACHE, or "
        "ios_tf in $XDG_CACHE_HOME or ~/.cache",
    )


def add_input(parser: Parser) -> None:
    """Adds an option for the inputs of a signature."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the values of an input as FILE.npy, or the shape of random values, such "
        "as image=1,224,224,3 (may be repeated); default: random values for a batch of "
        "--batch_size",
    )


def add_whole(parser: Parser, name: str, default: int, least: int, text: str) -> None:
    """Adds an option for a whole number that is at least `least`."""
    parser.add_argument(
        f"--{name}",
        type=functools.partial(_whole, least=least),
        default=default,
        metavar="N",
        help=f"{text}; default: {default}",
    )


def _whole(value: str, least: int) -> int:
    try:
        # Python does not parse much longer numbers.
        number = int(value) if value.isdecimal() and len(value) < 1000 else None
        return whole("it", value if number is None else number, least)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("it ")) from None


def _batch_sizes(value: str) -> list[int]:
    sizes = [_whole(part, 1) for part in value.split(",")]
    for size in sizes:
        if sizes.count(size) > 1:
            raise argparse.ArgumentTypeError(f"{size} is listed more than once")
    return sizes


def _image_size(value: str) -> tuple[int, int]:
    sizes = [_whole(part, 1) for part in value.split(",")]
    if len(sizes) > 2:
        raise argparse.ArgumentTypeError("must be H,W, or one number for both")
    return sizes[0], sizes[-1]


def _strategies(value: str) -> Sequence[str]:
    names = tuple(value.split(","))
    for name in names:
        if name not in STRATEGIES:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not one of {', '.join(STRATEGIES)}"
            )
    return names
