"""Plots as SVG files. The same results always give the same file."""

from __future__ import annotations

from typing import Any

from ios_tf.errors import UserError


def pyplot() -> Any:
    """Returns matplotlib.pyplot, for `save`.

    Raises:
      UserError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise UserError("--plot needs matplotlib. Install the extra 'plots'") from None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ios_tf"
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, path: str) -> None:
    """Writes a figure."""
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
