"""The errors users see: one line that says what is wrong and what to do."""

from __future__ import annotations


class UserError(ValueError):
    """Bad input; the command line prints it as one line and exits with code 1."""


class NativeLibraryError(ImportError):
    """The native library is missing, or does not fit the running TensorFlow."""
