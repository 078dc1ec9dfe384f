"""The programs of examples/serving, and models that prepare.py has prepared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import shared
from commands import run_prepared

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "serving"
sys.path.append(str(EXAMPLES))  # Python adds this path when it runs these programs

import load_test  # noqa: E402, F401
import prepare  # noqa: E402, F401


def run(
    program: Any,
    arguments: Sequence[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str, str]:
    """Runs a program in this process; returns its exit code, output and errors."""
    monkeypatch.setattr(sys, "argv", [program.__name__, *map(str, arguments)])
    try:
        code = program.main()
    except SystemExit as usage:
        code = usage.code
    output, errors = capsys.readouterr()
    return code, output, errors


def prepared_models() -> Path:
    """A directory that prepare.py has filled with two models.

    Version 7 of `branches` is `shared.branches`, for batch sizes 1, 2 and 3. Version 1
    of `one` takes one image, without a batch dimension, and is served from /models.
    """
    return shared.made_once("prepared_models", _prepare_models) / "models"


def _prepare_models(directory: Path) -> None:
    _prepare(
        directory,
        shared.branches(),
        *("--name=branches", "--version=7", "--batch_sizes=1,3,2"),
        # made_once() renames the directory when it is complete.
        f"--server_directory={directory.with_suffix('') / 'models'}",
    )
    _save_model_of_one_image(directory / "one")
    _prepare(directory, directory / "one", "--name=one", "--server_directory=/models")


def _prepare(directory: Path, model: str | Path, *flags: str) -> None:
    quick = ("--strategy=greedy", "--time_limit=1", "--keep_slower")
    run_prepared(
        *(EXAMPLES / "prepare.py", model, directory / "models", *quick, *flags),
        f"--cache_dir={directory / 'cache'}",
    )


def _save_model_of_one_image(path: Path) -> None:
    import tensorflow as tf

    filters = tf.random.stateless_uniform([3, 3, 3, 8], [1, 2])

    @tf.function(input_signature=[tf.TensorSpec([17, 17, 3], name="image")])
    def network(image):
        features = tf.nn.relu(tf.nn.conv2d(image[None], filters, 1, "SAME"))
        return {"scores": tf.reduce_mean(features, [0, 1, 2])}

    module = tf.Module()
    module.network = network
    tf.saved_model.save(module, str(path), signatures=network)
