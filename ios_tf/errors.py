"""The errors users see: one line that says what is wrong and what to do."""

from __future__ import annotations

import re

from ios_tf.printable import printable


class UserError(ValueError):
    """Bad input; the command line prints it as one line and exits with code 1.

    Examples:
      >>> try:
      ...     ios_tf.convert("no/model", "converted")
      ... except ios_tf.UserError as error:
      ...     print(error)
      no/model: no such file or directory
    """


class NativeLibraryError(ImportError):
    """The native library is missing, or does not match the running TensorFlow."""


# Keras colours the errors that it quotes, and adds its own text around them.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OF_KERAS = "Exception encountered when calling "
_QUOTED_BY_KERAS = "\n\nException encountered: "
_DUMPED_BY_KERAS = " Full object config: "

# TensorFlow writes names of nodes before the reason of an error, and the name of the
# operation after it.
_NODES = re.compile(r"(\[\[)?\{\{\w+ [^{}]*\}\}(\]\])?:? ?")
_OPERATION = re.compile(r" ?\[Op:\w+\](?: name: ?\S*)?")

# Lines that begin with these texts do not give the reason of an error. TensorFlow
# writes them when an operator fails inside of a function.
_OF_NO_USE = ("Graph execution error", "Detected at node", "<stack traces", 'File "')


def plain(text: str) -> str:
    """Removes the names that TensorFlow adds to a message for its own developers."""
    return _OPERATION.sub("", _NODES.sub("", text))


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or the error's type if it is empty.

    If Keras gives the reason in the second line, that line is included.
    """
    text = _COLOURS.sub("", plain(str(error))).rpartition(_QUOTED_BY_KERAS)[2]
    text = text.partition(_DUMPED_BY_KERAS)[0]
    if text.startswith("in user code:"):  # AutoGraph's message ends with the error
        text = text.rstrip().rpartition("\n\n")[2]
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_OF_NO_USE)]
    if text.startswith(_OF_KERAS):
        lines[:2] = [" ".join(lines[:2])]
    return printable(lines[0]) if lines else type(error).__name__
