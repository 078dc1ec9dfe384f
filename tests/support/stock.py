"""Processes that run TensorFlow without this package. Each kind is started once."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import numpy as np
import prepared_python

_SERVE = """
import sys
import numpy as np
import tensorflow as tf
for line in sys.stdin:
    model, inputs, outputs = line.rstrip("\\n").split("\\t")
    function = tf.saved_model.load(model).signatures["serving_default"]
    (result,) = function(tf.constant(np.load(inputs))).values()
    assert not any(name.startswith("ios_tf") for name in sys.modules)
    np.save(outputs, result.numpy())
    print("done", flush=True)
"""


def serve(model: str, images, directory: Path, onednn: bool = True) -> np.ndarray:
    """Runs a SavedModel with one output; `directory` gets the arrays.

    `onednn`: enables TensorFlow's oneDNN kernels.
    """
    paths = [str(directory / "stock_in.npy"), str(directory / "stock_out.npy")]
    np.save(paths[0], np.asarray(images))
    process = _process(onednn)
    process.stdin.write("\t".join([str(model), *paths]) + "\n")
    process.stdin.flush()
    if process.stdout.readline() != "done\n":
        _process.cache_clear()
        raise AssertionError(f"stock TensorFlow cannot run {model}: see its stderr")
    return np.load(paths[1])


@functools.cache
def _process(onednn: bool) -> subprocess.Popen:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("IOS_TF")}
    # The started process ends when its standard input is closed, so it ends together
    # with this process.
    return subprocess.Popen(
        [prepared_python.path(), "-c", _SERVE],
        env={**environment, "TF_ENABLE_ONEDNN_OPTS": str(int(onednn))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
