"""Explains why the native libraries cannot be loaded on this system."""

from __future__ import annotations

import platform
import re

# The message of glibc's loader for a library that needs a newer glibc or libstdc++.
_NEWER = re.compile(r"version `(\w+?)_([\d.]+)' not found")
_LIBRARIES = {"GLIBC": "glibc", "GLIBCXX": "libstdc++", "CXXABI": "libstdc++"}


def unsupported() -> str | None:
    """Why no build of the libraries can work on this platform; None if one can."""
    return unsupported_machine() or unsupported_c_library()


def unsupported_machine() -> str | None:
    """Why no build of the libraries can work on this machine; None if one can."""
    found = f"{platform.system()} on {platform.machine()}"
    if found != "Linux on x86_64":
        return f"ios_tf supports Linux on x86_64 only, but this is {found}"
    return None


def unsupported_c_library() -> str | None:
    """Why no build of the libraries can work with this C library; None if one can."""
    name = platform.libc_ver()[0]
    if name != "glibc":
        return (
            "ios_tf and TensorFlow need glibc, but this Python uses "
            f"{name or 'another C library (Alpine Linux has musl)'}"
        )
    return None


def explained(error: str) -> str:
    """The loader's message, or a sentence that says what to do about it."""
    if reason := unsupported():
        return reason
    if newer := _NEWER.search(error):
        library = _LIBRARIES.get(newer[1], newer[1])
        name, running = platform.libc_ver()
        has = "this system does not have it"
        if library == name:
            has = f"this system has {name} {running}"
        return (
            f"the library needs {library} with {newer[1]}_{newer[2]}, but {has}. "
            "Install a wheel for an older manylinux, or build ios-tf on this system"
        )
    return error
