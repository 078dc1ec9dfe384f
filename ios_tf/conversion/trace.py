"""trace_model: records calls of a converted model, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ios_tf.conversion import timing
from ios_tf.errors import UserError
from ios_tf.model import saved_models
from ios_tf.model.inputs import Given, accepted_inputs, outputs_of
from ios_tf.model.loading import saved_model
from ios_tf.native import plugin, tracing
from ios_tf.report import document


def trace_model(
    model: Any,
    *,
    runs: int = 1,
    batch_size: int = 1,
    signature: str | None = None,
    tags: Sequence[str] | None = None,
    inputs: Mapping[str, Given] | None = None,
    max_operators: int = tracing.MAX_OPERATORS,
) -> tracing.Trace:
    """Calls a converted model, and returns what the engine did in each call.

    Two unrecorded calls come first, because the first call compiles the regions.

    Args:
      model: a SavedModel that `convert` wrote.
      runs: the number of recorded calls.
      batch_size, signature, tags, inputs: as for `export_onnx`, but for the calls.
      max_operators: as for `ios_tf.trace`.

    Raises:
      UserError: the model cannot be called, none of it runs on the engine, or a trace
        is being recorded already.
      NativeLibraryError: the native library is missing.
    """
    plugin.ops()
    with saved_model(model) as source:
        loaded = saved_models.load(source, tags)
        image_size = document.image_size(source)
    signature = saved_models.choose_signature(signature, loaded)
    function = loaded.signatures[signature]
    arguments, _ = accepted_inputs(function, batch_size, inputs, image_size)
    outputs_of(function, arguments)
    with tracing.record(max_operators) as recording:
        for _ in range(runs):
            timing.wait_for(outputs_of(function, arguments))
    assert recording.trace is not None
    if not recording.trace.calls:
        raise UserError(
            f"no part of signature {signature!r} of {model} runs on IOS-TF's engine on "
            "the CPU, so there is nothing to trace. Convert the model with `ios_tf "
            "convert --device=cpu` and trace the result. Add --keep_slower if no part "
            "of the model becomes faster"
        )
    return recording.trace
