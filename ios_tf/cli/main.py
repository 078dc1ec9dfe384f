"""The ios_tf command, its arguments and its exit codes."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ios_tf import models
from ios_tf.cli import bench, cache
from ios_tf.errors import NativeLibraryError, UserError
from ios_tf.model import leftovers
from ios_tf.scheduler import STRATEGIES, Pruning

_MODEL = (
    "a SavedModel directory, a .keras or .h5 file, keras:NAME (keras.applications), or "
    f"models:NAME ({', '.join(models.NETWORKS)})"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; gives 0, 1 for failure, 2 for wrong usage."""
    logging.basicConfig(format="ios_tf: %(message)s", level=logging.WARNING)
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(bench.with_command(words))
    try:
        with leftovers.temporary_directory():
            with _quiet_standard_error():
                _import_tensorflow()
            options.run(options)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader, say `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if options.traceback:
            raise
        print(f"ios_tf: error: {_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nios_tf: interrupted; nothing is written", file=sys.stderr)
        return 130
    return 0


def _convert(options: argparse.Namespace) -> None:
    from ios_tf.conversion.convert import convert

    report = convert(
        options.model,
        options.output,
        batch_size=options.batch_size,
        device=options.device,
        strategy=options.strategy,
        max_groups=options.max_groups,
        max_group_size=options.max_group_size,
        time_limit=options.time_limit,
        units=options.unit,
        borders=options.border,
        cache_dir=options.cache_dir,
        warmup=options.warmup,
        number=options.number,
        repeat=options.repeat,
        signatures=options.signature,
        tags=options.tags,
        weights=options.weights,
        keep_slower=options.keep_slower,
        overwrite=options.overwrite,
        progress=True,
        say=_say,
    )
    print(report.table())


def _complexity(options: argparse.Namespace) -> None:
    from ios_tf.conversion import explore

    pruning = Pruning(options.max_group_size, options.max_groups, options.single_source)
    print(explore.complexity_table(*_blocks(options, pruning, count_only=True)))


def _explore(options: argparse.Namespace) -> None:
    from ios_tf.conversion import explore

    # Fails now rather than after the model has been read.
    cost_model = explore.cost_model_of(options.device, options.cache_dir)
    blocks, pruning, patterns = _blocks(
        options, Pruning(options.max_group_size, options.max_groups)
    )
    print(
        explore.latency_table(blocks, cost_model, pruning, patterns, options.strategies)
    )


def _blocks(
    options: argparse.Namespace, pruning: Pruning, count_only: bool = False
) -> tuple[Any, Pruning, Any]:
    from ios_tf.conversion import explore
    from ios_tf.tuning.parts import Patterns

    patterns = Patterns(tuple(options.unit), tuple(options.border))
    blocks = explore.blocks_of(
        options.model,
        options.batch_size,
        pruning,
        patterns,
        options.signature,
        _say,
        options.tags,
        count_only,
    )
    return blocks, pruning, patterns


def _show(options: argparse.Namespace) -> None:
    from ios_tf.conversion.show import show

    print(show(options.model, options.signature, options.tags))


def _export_blocks(options: argparse.Namespace) -> None:
    from ios_tf.conversion.block_export import export_blocks

    network = export_blocks(
        options.model,
        options.output,
        batch_size=options.batch_size,
        signature=options.signature,
        tags=options.tags,
    )
    operators = sum(len(region.block["operators"]) for region in network.regions)
    print(
        f"{options.output}: {operators} operators in {len(network.regions)} regions, "
        f"{len(network.problems)} different blocks"
    )


def _export_onnx(options: argparse.Namespace) -> None:
    from ios_tf.conversion.onnx_export import export_onnx
    from ios_tf.model.inputs import parse_inputs

    exported = export_onnx(
        options.model,
        options.output,
        inputs=parse_inputs(options.input),
        batch_size=options.batch_size,
        signature=options.signature,
        tags=options.tags,
        opset=options.opset,
    )
    print(
        f"{options.output}: signature {exported.signature!r} with {exported.merged} "
        "merged convolutions"
    )
    if exported.difference is None:
        print("not compared: ONNX Runtime is missing (pip install onnxruntime)")
    else:
        print(f"ONNX Runtime's outputs differ by {exported.difference:.1e} (relative)")


def _say(line: str) -> None:
    print(line, flush=True)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} ({self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ios_tf", description="Inter-operator scheduling for CNNs.")
    # Sub-parsers are made of the parser's own class.
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "convert",
        help="write a SavedModel that runs faster",
        description="Finds schedules by measuring on this machine and writes a "
        "SavedModel that carries them.",
    )
    command.set_defaults(run=_convert)
    _add_model(command, _MODEL)
    command.add_argument("output", metavar="OUTPUT", help="directory to write")
    command.add_argument(
        "--batch_size",
        type=_batch_sizes,
        default=[1],
        metavar="N,M",
        help="where the model's is dynamic: one or several, such as 1,8,32; a batch "
        "runs by the schedule of the nearest; default: 1",
    )
    _add_common(command)
    command.add_argument(
        "--strategy", choices=STRATEGIES, default="both", help="default: both"
    )
    _add_whole(command, "max_groups", 8, 0, "groups per stage; 0: any")
    _add_whole(command, "max_group_size", 3, 0, "operators per group; 0: any")
    _add_whole(command, "time_limit", 300, 0, "seconds the searches may take; 0: any")
    _add_patterns(command)
    _add_whole(command, "warmup", 2, 0, "unmeasured runs per latency")
    _add_whole(command, "number", 3, 1, "runs per measurement")
    _add_whole(command, "repeat", 3, 1, "measurements per latency; the median counts")
    command.add_argument(
        "--signature",
        action="append",
        metavar="NAME",
        help="convert only this one (may be repeated); the others stay as they are",
    )
    command.add_argument(
        "--keep_slower",
        action="store_true",
        help="keep what is no faster here than TensorFlow: for experiments",
    )
    command.add_argument(
        "--overwrite", action="store_true", help="replace OUTPUT if it is a SavedModel"
    )

    command = commands.add_parser(
        "complexity",
        help="count the schedules of a model's blocks (the paper's Table 1)",
        description="Counts operators n, width d, states, the bound on transitions, "
        "transitions and schedules of every different block.",
    )
    command.set_defaults(run=_complexity)
    _add_blocks(command, max_groups=0, max_group_size=0)
    command.add_argument(
        "--single_source",
        action="store_true",
        help="count only stages whose groups are all that follows one operator, as the "
        "paper's Table 1 does",
    )

    command = commands.add_parser(
        "explore",
        help="compare strategies on a device that is not there",
        description="Searches schedules without measuring: for a simulated device, or "
        "with the latencies measured before.",
    )
    command.set_defaults(run=_explore)
    _add_blocks(command, max_groups=8, max_group_size=3)
    command.add_argument(
        "--device",
        default="simulated:h200",
        metavar="DEVICE",
        help="simulated:NAME or measured:NAME; default: simulated:h200",
    )
    _add_cache_dir(command)
    _add_strategies(command)

    command = commands.add_parser(
        "show",
        help="print the schedule of a converted model, stage by stage",
        description="Prints the schedule of a converted model, stage by stage.",
    )
    command.set_defaults(run=_show)
    _add_model(command, "a converted SavedModel")
    command.add_argument("--signature", metavar="NAME", help="default: all")
    _add_traceback(command)

    command = commands.add_parser(
        "export-blocks",
        help="write what the engine computes, for machines without TensorFlow",
        description="Writes the regions and blocks of a model as one JSON file, "
        "without weights: what python -m ios_tf.bench measures.",
    )
    command.set_defaults(run=_export_blocks)
    _add_model(command, _MODEL)
    command.add_argument("output", metavar="FILE", help="file to write")
    _add_whole(command, "batch_size", 1, 1, "where the model's is dynamic")
    command.add_argument("--signature", metavar="NAME", help="the one to export")
    _add_traceback(command)

    command = commands.add_parser(
        "export-onnx",
        help="write a converted model, merged convolutions and all, as ONNX",
        description="Writes the rewritten graph of a converted model as an ONNX file "
        "and compares ONNX Runtime's outputs with TensorFlow's.",
    )
    command.set_defaults(run=_export_onnx)
    _add_model(command, "a converted SavedModel")
    command.add_argument("output", metavar="FILE", help="file to write")
    _add_whole(command, "batch_size", 1, 1, "of the comparison, where dynamic")
    bench.add_input(command)
    _add_whole(command, "opset", 17, 13, "version of ONNX's operators")
    command.add_argument("--signature", metavar="NAME", help="the one to export")
    _add_traceback(command)
    cache.add_commands(commands, _add_whole, _add_traceback)
    model = bench.add_commands(commands, _add_traceback)
    _add_model(model, _MODEL)
    _add_whole(model, "batch_size", 1, 1, "where the model's is dynamic")
    _add_common(model)
    _add_strategies(model)
    _add_whole(model, "rounds", 20, 1, "rounds of measurements")
    return parser


def _add_model(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("model", metavar="MODEL", help=text)
    command.add_argument(
        "--tags",
        type=lambda value: value.split(","),
        metavar="A,B",
        help="of the MetaGraph, if MODEL has several, such as serve,gpu",
    )


def _add_common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--device",
        choices=("auto", "cpu", "gpu"),
        default="auto",
        help="default: auto, the GPU if there is one and CUDA's libraries load",
    )
    command.add_argument(
        "--weights",
        choices=("imagenet",),
        help="for keras:NAME; default: random ones",
    )
    _add_cache_dir(command)
    _add_traceback(command)


def _add_blocks(
    command: argparse.ArgumentParser, max_groups: int, max_group_size: int
) -> None:
    """What says which blocks of which model."""
    _add_model(command, _MODEL)
    _add_whole(command, "batch_size", 1, 1, "where the model's is dynamic")
    _add_whole(command, "max_groups", max_groups, 0, "groups per stage; 0: any")
    _add_whole(
        command, "max_group_size", max_group_size, 0, "operators per group; 0: any"
    )
    _add_patterns(command)
    command.add_argument("--signature", metavar="NAME", help="the one to look at")
    _add_traceback(command)


def _add_strategies(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--strategies",
        type=_strategies,
        default=("sequential", "greedy", "merge", "parallel", "both"),
        metavar="A,B",
        help="default: sequential,greedy,merge,parallel,both",
    )


def _add_cache_dir(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cache_dir",
        metavar="DIR",
        help="of schedules and latencies; default: $IOS_TF_CACHE or ~/.cache/ios_tf",
    )


def _add_patterns(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--unit",
        action="append",
        default=[],
        metavar="REGEX",
        help="operators whose names match, and equally in its groups, are scheduled as "
        "one (may be repeated)",
    )
    command.add_argument(
        "--border",
        action="append",
        default=[],
        metavar="REGEX",
        help="a block ends with an operator whose name matches (may be repeated)",
    )


def _add_traceback(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--traceback", action="store_true", help="show where an error comes from"
    )


def _add_whole(
    command: argparse.ArgumentParser, name: str, default: int, least: int, text: str
) -> None:
    command.add_argument(
        f"--{name}",
        type=functools.partial(_whole, least=least),
        default=default,
        metavar="N",
        help=f"{text}; default: {default}",
    )


def _whole(value: str, least: int) -> int:
    if not value.isdecimal() or int(value) < least:
        raise argparse.ArgumentTypeError(
            f"must be a whole number >= {least}, not {value!r}"
        )
    return int(value)


def _batch_sizes(value: str) -> list[int]:
    sizes = [_whole(part, 1) for part in value.split(",")]
    for size in sizes:
        if sizes.count(size) > 1:
            raise argparse.ArgumentTypeError(f"names {size} more than once")
    return sizes


def _strategies(value: str) -> tuple[str, ...]:
    names = tuple(value.split(","))
    for name in names:
        if name not in STRATEGIES:
            raise argparse.ArgumentTypeError(
                f"{name!r} is not one of {', '.join(STRATEGIES)}"
            )
    return names


def _import_tensorflow() -> None:
    # Must be set before: TensorFlow reads it when it is loaded.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.get_logger().setLevel(logging.ERROR)
    tf.config.list_logical_devices()  # says what it thinks of this machine's GPUs


@contextlib.contextmanager
def _quiet_standard_error() -> Iterator[None]:
    """Keeps from the terminal what native code prints, unless something fails.

    TensorFlow logs several lines before any of its own switches works.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as noise:
        standard_error = os.dup(2)
        os.dup2(noise.fileno(), 2)
        try:
            yield
        except BaseException:
            noise.seek(0)
            os.write(standard_error, noise.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(standard_error, 2)
            os.close(standard_error)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, (UserError, NativeLibraryError)):
        return text
    return f"{type(error).__name__}: {text}; --traceback shows where it comes from"
