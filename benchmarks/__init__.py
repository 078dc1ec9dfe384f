"""Measurements: the paper's experiments, peers, and what users wait for.

Run `python -m benchmarks` in a checkout. The installed `ios_tf` is measured.
"""

import sys
from pathlib import Path

_CHECKOUT = str(Path(__file__).resolve().parents[1])
# The checkout's ios_tf is not built unless it is the installed one.
if _CHECKOUT in sys.path:
    sys.path.remove(_CHECKOUT)
    sys.path.append(_CHECKOUT)


def command_line(command: str, *words: str) -> list[str]:
    """A program that runs a command of this package, in any directory."""
    program = (
        f"import sys; sys.path.append({_CHECKOUT!r}); "
        "from benchmarks.__main__ import main; sys.exit(main())"
    )
    return [sys.executable, "-c", program, command, *words]
