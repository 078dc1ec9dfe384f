"""The command `ios_tf`, or `python -m ios_tf`."""

import signal
import sys

# Until the command starts, an interrupt (Ctrl-C) ends the process at once and without a
# traceback, because the process has nothing to clean up yet.
_before = signal.getsignal(signal.SIGINT)
if _before is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ios_tf.cli.main import main  # noqa: E402


def run() -> int:
    """Runs the command; returns its exit code."""
    signal.signal(signal.SIGINT, _before)
    return main()


if __name__ == "__main__":
    sys.exit(run())
