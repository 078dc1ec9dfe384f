"""The ios_tf command: runs a command line and returns an exit code."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from absl import app, flags
from absl import logging as absl_logging

from ios_tf.cli import (
    arguments,
    bench,
    cache,
    completion,
    convert,
    doctor,
    explain,
    report,
    show,
    trace,
)
from ios_tf.cli.endings import ended_by_exception, handled
from ios_tf.cli.parser import Parser
from ios_tf.cli.quiet import import_tensorflow, quiet_standard_error
from ios_tf.errors import NativeLibraryError, UserError, plain
from ios_tf.model import temp_dirs
from ios_tf.native import engine, malloc
from ios_tf.printable import printable

# Texts about a lack of memory: the usual reason why native code aborts, our message if
# TensorFlow cannot be loaded, and patterns of the dynamic loader's messages.
_EXHAUSTED = "probably because it got no memory or no thread"
_NOT_LOADED = f"TensorFlow cannot be loaded, {_EXHAUSTED}"
_NOT_MAPPED = re.compile("failed to map segment|cannot allocate memory", re.IGNORECASE)
_COMMANDS = (
    *(convert, show, report, trace, cache, bench),
    *(explain, doctor, completion),
)


def main(words: Sequence[str] | None = None) -> int:
    """Runs a command line, by default that of this process.

    Returns:
      The exit code: 0 for success, 1 for failure, 2 for wrong usage, 130 for an
      interrupt, 143 for SIGTERM, 129 for a closed terminal, or the command's own code.
    """
    _open_standard_streams()
    argv = sys.argv if words is None else [sys.argv[0], *words]
    absl_logging.set_verbosity(absl_logging.WARNING)
    handler = absl_logging.get_absl_handler()
    handler.setFormatter(logging.Formatter("ios_tf: %(message)s"))
    handler.addFilter(_is_of_use)
    try:
        app.run(_run, argv, flags_parser=_parse)
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else 0
    except KeyboardInterrupt:
        print("\nios_tf: interrupted", file=sys.stderr)
        return 130
    return 0


def _open_standard_streams() -> None:
    """Opens standard streams that are closed, as a daemon may leave them.

    Otherwise the next files that are opened would get the descriptors of these streams.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
        if getattr(sys, name) is None:
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = command_parser()
    try:
        return parser.parse_args(argv[1:])
    except flags.Error as error:
        parser.error(str(error))


def _is_of_use(record: logging.LogRecord) -> bool:
    """Whether to print a log record: all of IOS-TF, warnings and errors of others."""
    return record.name == "ios_tf" or record.levelno >= logging.WARNING


def _run(options: argparse.Namespace) -> int:
    try:
        if not options.needs_tensorflow:
            return options.run(options) or _flush_output()
        with ended_by_exception(), _explained_aborts(options.traceback):
            # TensorFlow is imported outside of the temporary directory, because some
            # libraries remove their temporary files only when the process ends.
            with (
                quiet_standard_error(),
                _interrupted_afterwards(),
                _limited(),
                malloc.reserve(),
            ):
                import_tensorflow()
            with temp_dirs.temporary_directory(), malloc.reserve():
                code = options.run(options)
        return _flush_output() or code or 0
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        arguments.forget_output()
        return 0
    except Exception as error:
        if options.traceback:
            raise
        print(f"ios_tf: error: {_one_line(error)}", file=sys.stderr, flush=True)
        no_memory = isinstance(error, (MemoryError, NativeLibraryError))
        if no_memory and _memory_is_limited():
            # Without memory, half-loaded libraries crash when they are unloaded.
            with contextlib.suppress(BrokenPipeError):
                _flush_output()
            os._exit(1)
        return 1


def _flush_output() -> int:
    """Flushes standard output; returns an exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        arguments.forget_output()
        print(f"ios_tf: error: standard output: {error.strerror}", file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Delays interrupts until the block ends.

    A library that is interrupted while it loads would report that loading failed.
    """
    interrupts: list[int] = []
    with handled(lambda number, _: interrupts.append(number), signal.SIGINT):
        yield
    if interrupts:
        raise KeyboardInterrupt


class _Version(argparse.Action):
    """Prints the versions that every bug report needs."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any):
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any) -> NoReturn:
        from ios_tf import doctor

        for line in doctor.version_lines():
            print(line)
        parser.exit()


def command_parser() -> Parser:
    parser = Parser(
        prog="ios_tf",
        description=(
            "Converts TensorFlow CNNs to models that run faster on this machine. All "
            "commands accept --verbosity=0, which logs each step and its duration, "
            "--verbosity=1, which also shows TensorFlow's own messages, and the other "
            "flags of absl (--helpfull lists them)."
        ),
    )
    parser.add_argument(
        "--version",
        action=_Version,
        help="print the versions of ios_tf, TensorFlow and oneDNN, and exit",
    )
    # argparse makes sub-parsers of the parser's own class, so that they report errors
    # in the same way.
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_commands(commands)
    return parser


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Reports errors inside the block as a lack of memory, if memory is limited.

    If memory is missing, imports fail with many kinds of errors.
    """
    try:
        yield
    except Exception as error:
        if not _memory_is_limited():
            raise
        raise NativeLibraryError(_NOT_LOADED + _limits()) from error


def _memory_is_limited() -> bool:
    limits = resource.RLIMIT_AS, resource.RLIMIT_DATA
    return any(resource.getrlimit(one)[0] != resource.RLIM_INFINITY for one in limits)


@contextlib.contextmanager
def _explained_aborts(traceback: bool) -> Iterator[None]:
    """Prints a one-line error if native code aborts the process.

    Native code aborts if it gets no memory or threads. With `traceback`, its own output
    stays visible.
    """
    if traceback:
        yield
        return
    if _memory_is_limited():
        malloc.save_addresses()
    standard_error = os.dup(2)  # descriptor 2 may be redirected later
    message = f"native code aborted the process, {_EXHAUSTED}{_limits()}"
    message += ". Run with --traceback to see the message of the native code"
    # The progress may have left the cursor behind its bar.
    clear = "\r\x1b[K" if os.isatty(standard_error) else ""
    engine.exit_on_abort(f"{clear}ios_tf: error: {message}\n", standard_error)
    try:
        yield
    finally:
        engine.exit_on_abort(None)
        os.close(standard_error)


def _limits() -> str:
    """Describes the limits on memory and threads of this process."""
    limits = [
        f"{what} {value >> shift}{unit} (ulimit -{flag})"
        for what, flag, limit, shift, unit in (
            ("address space", "v", resource.RLIMIT_AS, 10, " KiB"),
            ("data", "d", resource.RLIMIT_DATA, 10, " KiB"),
            ("threads", "u", resource.RLIMIT_NPROC, 0, ""),
        )
        if (value := resource.getrlimit(limit)[0]) != resource.RLIM_INFINITY
    ]
    return f" (limits of this process: {', '.join(limits)})" if limits else ""


def _one_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"there is not enough memory{_limits()}"
    if isinstance(error, ImportError) and _NOT_MAPPED.search(str(error)):
        return _NOT_LOADED + _limits()
    text = printable(" ".join(plain(str(error)).split()))
    if isinstance(error, (UserError, NativeLibraryError)):
        return text
    return f"{type(error).__name__}: {text} (--traceback shows where it was raised)"
