"""The cost of loading a converted model with the plugin and in stock TensorFlow.

Every load is a separate process, and the variants take turns. The time includes the
import of this package but not the import of TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.processes import run_python
from ios_tf.conversion.convert import convert
from ios_tf.model import keras2
from ios_tf.model.loading import keras_model_of, saved_model
from ios_tf.tables import table

# Arguments: the model's directory, "plugin" or "stock", the batch size.
_CHILD = """
import json, sys, time
import tensorflow as tf
from benchmarks.processes import memory_mib

model, plugin, batch_size = sys.argv[1], sys.argv[2] == "plugin", int(sys.argv[3])
times = [time.perf_counter()]
if plugin:
    import ios_tf
function = tf.saved_model.load(model).signatures["serving_default"]
inputs = {
    name: tf.cast(
        tf.random.uniform(
            [size or (224 if i else batch_size) for i, size in enumerate(spec.shape)]
        ),
        spec.dtype,
    )
    for name, spec in function.structured_input_signature[1].items()
}
times.append(time.perf_counter())
for _ in range(2):
    [output.numpy() for output in function(**inputs).values()]
    times.append(time.perf_counter())
memory = [memory_mib(name) for name in ("VmRSS", "VmHWM")]
print(json.dumps([b - a for a, b in zip(times, times[1:])] + memory))
"""


@dataclasses.dataclass(frozen=True)
class Loading:
    """Medians for one way to load a model.

    Attributes:
      load: seconds until the signature can be called.
      first, second: seconds of the first two calls. In the first call, TensorFlow
        optimises the graph and the engine compiles its regions.
      resident, peak: memory of the process in MiB, after these calls and at its peak.
    """

    load: float
    first: float
    second: float
    resident: float
    peak: float


def bench_loading(
    model: Any,
    *,
    batch_size: int = 1,
    rounds: int = 5,
    cache_dir: str | None = None,
    progress: bool = False,
    log: Callable[[str], None] = lambda line: None,
) -> dict[str, Loading]:
    """Loads the original and the converted model, each in separate processes.

    Args:
      model, batch_size, cache_dir, progress, log: as for `ios_tf.convert`.
      rounds: number of processes per variant.

    Returns:
      "TensorFlow" (the original), "converted, TensorFlow" (without the plugin) and
      "converted, plugin".

    Raises:
      UserError: as for `ios_tf.convert`.
    """
    with (
        _original(model, log) as source,
        tempfile.TemporaryDirectory(prefix="ios_tf_") as directory,
    ):
        converted = directory + "/converted"
        convert(
            source,
            converted,
            batch_size=batch_size,
            cache_dir=cache_dir,
            keep_slower=True,
            progress=progress,
        )
        variants = {
            "TensorFlow": (source, "stock"),
            "converted, TensorFlow": (converted, "stock"),
            "converted, plugin": (converted, "plugin"),
        }
        found: dict[str, list[list[float]]] = {name: [] for name in variants}
        for _ in range(rounds):
            for name, arguments in variants.items():
                found[name].append(run_python(_CHILD, *arguments, str(batch_size)))
    return {
        name: Loading(*map(statistics.median, zip(*times, strict=True)))
        for name, times in found.items()
    }


@contextlib.contextmanager
def _original(model: Any, log: Callable[[str], None]) -> Iterator[str]:
    """Yields the model as it is served without this package.

    This is a SavedModel, or the export of a Keras model.
    """
    keras_model = keras_model_of(model, log=log)
    if keras_model is None:
        with saved_model(model, log=log) as path:
            yield path
        return
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        path = directory + "/exported"
        quiet = {} if keras2.is_model(keras_model) else {"verbose": False}
        keras_model.export(path, **quiet)
        yield path


def loading_table(found: Mapping[str, Loading]) -> str:
    """Returns the result of `bench_loading` as a table."""
    rows = [
        [
            name,
            f"{loading.load:.2f}",
            f"{loading.first:.2f}",
            f"{loading.second:.3f}",
            f"{loading.resident:.0f}",
            f"{loading.peak:.0f}",
        ]
        for name, loading in found.items()
    ]
    columns = ["load s", "first call s", "second call s", "resident MiB", "peak MiB"]
    return table(["", *columns], rows)
