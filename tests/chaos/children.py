"""Programs that the cases run in separate processes."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def assert_close(
    found: Iterable[npt.ArrayLike], expected: Iterable[npt.ArrayLike]
) -> None:
    """Raises if an output differs from its original by more than rounding."""
    for x, y in zip(found, expected, strict=True):
        atol = 1e-3 * np.abs(y).max()
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=atol)


# Loads and unloads a model, and prints the resident memory.
LOADER = """
import gc
import resource
import sys
import tensorflow as tf
from ios_tf.native.malloc import return_freed
from ios_tf.model import saved_models
from ios_tf.model.inputs import example_inputs

path, loads, plugin = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "plugin"
tf.config.optimizer.set_experimental_options({"use_plugin_optimizers": plugin})
first = None
for _ in range(loads):
    loaded = tf.saved_model.load(path)
    function = loaded.signatures[saved_models.choose_signature(None, loaded)]
    inputs = example_inputs(function, 1)
    result = {k: v.numpy().tobytes() for k, v in function(**inputs).items()}
    assert first in (None, result)
    first = result
    del loaded, function
    gc.collect()  # cycles, which Python lets pile up
    return_freed()
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    print(pages * resource.getpagesize() / 2**20, flush=True)
"""
# Serves the original for a number of rounds, or forever, with schedules from the cache
# as they appear.
SERVER = """
import itertools
import sys
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants
import ios_tf
from chaos.children import assert_close
from ios_tf.model import saved_models
from ios_tf.model.inputs import example_inputs

path, cache, on_miss, rounds = sys.argv[1:]
loaded = tf.saved_model.load(path)
original = loaded.signatures[saved_models.choose_signature(None, loaded)]
inputs = [example_inputs(original, size) for size in (1, 2, 3)]
expected = [tf.nest.flatten(original(**i)) for i in inputs]
ios_tf.enable(cache_dir=cache, on_miss=on_miss, max_groups=2, progress=False)
for _ in range(int(rounds)) if int(rounds) else itertools.count():
    served = convert_to_constants.convert_variables_to_constants_v2(original)
    for i, truth in zip(inputs, expected):
        assert_close(tf.nest.flatten(served(**i)), truth)
"""
# Compares the results of two models for several batch sizes.
COMPARER = """
import sys
import tensorflow as tf
import ios_tf
from chaos.children import assert_close
from ios_tf.model import saved_models
from ios_tf.model.inputs import example_inputs

loaded = [tf.saved_model.load(path) for path in sys.argv[1:]]
original, converted = (
    model.signatures[saved_models.choose_signature(None, model)] for model in loaded
)
for size in (1, 3):
    inputs = example_inputs(original, size)
    expected, found = original(**inputs), converted(**inputs)
    assert expected.keys() == found.keys()
    assert_close([found[key] for key in expected], expected.values())
"""
# Forks while threads run, compile and evict programs. They use more shapes than the
# engine keeps compiled. The child also runs the engine.
FORKS = """
import os
import sys
import threading
import numpy as np
forks, with_tensorflow = int(sys.argv[1]), sys.argv[2] == "tensorflow"
if with_tensorflow:
    import tensorflow as tf
    tf.matmul(tf.ones((64, 64)), tf.ones((64, 64)))  # its threads run
from ios_tf.native import engine

conv = {"type": "conv2d", "kernel": [3, 3], "padding": "SAME", "filters": 16}
block = {"version": 1, "name": "", "inputs": [[1, 20, 20, 16]], "outputs": [0, 1],
         "operators": [{**conv, "inputs": [-1]}, {**conv, "inputs": [-1]}]}
schedule = {"version": 1,
            "stages": [{"strategy": "concurrent", "groups": [[0], [1]]}]}
rng = np.random.default_rng(0)
weights = [rng.normal(size=(3, 3, 16, 16)).astype(np.float32) for _ in range(2)]
program = engine.Program(block, schedule, weights)
images = [rng.normal(size=(n, 20, 20, 16)).astype(np.float32) for n in range(1, 11)]
expected = [program.run([x])[0] for x in images]
going = True

def work(k):
    while going:
        k = (k + 1) % len(images)
        assert np.array_equal(program.run([images[k]])[0], expected[k])

threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for thread in threads:
    thread.start()
try:
    for _ in range(forks):
        child = os.fork()
        if child == 0:
            same = [np.array_equal(program.run([x])[0], y)
                    for x, y in zip(images, expected)]
            os._exit(0 if all(same) else 1)
        assert os.waitpid(child, 0)[1] == 0
finally:
    going = False
for thread in threads:
    thread.join()
print("all ran")
"""
