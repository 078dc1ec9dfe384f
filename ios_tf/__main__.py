"""The command `ios_tf`, or `python -m ios_tf`."""

import signal
import sys

# An interrupt ends the process at once until the command starts, because nothing must
# be cleaned up before that.
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
