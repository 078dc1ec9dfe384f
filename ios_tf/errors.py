"""The errors users see: one line that says what is wrong and what to do."""

from __future__ import annotations

from ios_tf.printable import printable


class UserError(ValueError):
    """Bad input; the command line prints it as one line and exits with code 1."""


class NativeLibraryError(ImportError):
    """The native library is missing, or does not fit the running TensorFlow."""


# How TensorFlow begins what it says of an operator that fails in a function.
_OF_NO_USE = ("Graph execution error", "Detected at node", "<stack traces", 'File "')


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has none."""
    text = str(error)
    if text.startswith("in user code:"):  # what AutoGraph says ends with the error
        text = text.rstrip().rpartition("\n\n")[2]
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_OF_NO_USE)]
    return printable(lines[0]) if lines else type(error).__name__
