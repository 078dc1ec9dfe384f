"""Runs the programs of this directory: errors are one line, and have exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from ios_tf.cli.parser import Parser
from ios_tf.cli.quiet import import_tensorflow, quiet_standard_error
from ios_tf.errors import NativeLibraryError, UserError


def run(parser: Parser, work: Callable[[argparse.Namespace], int | None]) -> int:
    """Parses the command line and calls `work`.

    Returns:
      The exit code: that of `work`, 1 for an error, or 130 for an interrupt. Wrong
      usage ends the process with code 2.
    """
    flags = parser.parse_args()
    try:
        return work(flags) or 0
    except (UserError, NativeLibraryError) as error:
        return _fail(parser, str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(parser, f"{where}{error.strerror or error}", 1)
    except KeyboardInterrupt:
        return _fail(parser, "interrupted", 130)


def load_libraries() -> None:
    """Imports TensorFlow without its messages.

    Raises:
      UserError: tensorflow-serving-api is not installed.
    """
    try:
        import tensorflow_serving.apis  # noqa: F401
    except ImportError:
        raise UserError(
            "the package tensorflow-serving-api is not installed; run pip install "
            "tensorflow-serving-api"
        ) from None
    with quiet_standard_error():
        import_tensorflow()


def _fail(parser: Parser, message: str, code: int) -> int:
    print(f"{parser.prog}: error: {message}", file=sys.stderr)
    return code
