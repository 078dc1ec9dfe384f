"""Measurements: the paper's experiments, peers, and the time that users wait.

Run `python -m benchmarks` in a checkout. It measures the installed `ios_tf`.
"""

import sys
from pathlib import Path

_CHECKOUT = str(Path(__file__).resolve().parents[1])
# Makes Python import the installed ios_tf. The ios_tf of the checkout has no native
# libraries, unless it is itself the installed one (pip install -e).
if _CHECKOUT in sys.path:
    sys.path.remove(_CHECKOUT)
    sys.path.append(_CHECKOUT)


def command_line(command: str, *words: str) -> list[str]:
    """Returns the words that run a command of this package in any directory."""
    program = "from benchmarks.__main__ import main; sys.exit(main())"
    return python_line(program, command, *words)


def python_line(program: str, *words: str) -> list[str]:
    """Returns the words that run a Python program that can import this package."""
    begin = f"import sys; sys.path.append({_CHECKOUT!r})\n"
    return [sys.executable, "-c", begin + program, *words]
