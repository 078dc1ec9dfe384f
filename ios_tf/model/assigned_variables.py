"""Variables that signatures assign and that no output depends on.

Examples are the seeds of dropout, counters of calls, and the moving averages of a batch
norm in training mode. They stay variables in a converted model, and calls still assign
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ios_tf.model.captured_variables import variables_of
from ios_tf.model.frozen_graphs import FrozenSignature
from ios_tf.model.not_converted import ChangesVariableError


def restore(frozen: FrozenSignature) -> None:
    """Restores the values that the variables had when the signature was frozen."""
    for name, value in frozen.assigned.items():
        if name in frozen.captures:
            tf.raw_ops.AssignVariableOp(resource=frozen.captures[name], value=value)


def check_others(
    functions: Mapping[str, Any], frozen: Mapping[str, FrozenSignature]
) -> None:
    """Checks that no signature uses a variable that only another signature assigns.

    Raises:
      ChangesVariableError: a signature uses such a variable.
    """
    assigned = {name: _assigned(one, frozen[name]) for name, one in functions.items()}
    for name, variables in assigned.items():
        for other, function in functions.items():
            used = {id(handle) for handle in function.captured_inputs}
            for handle in (used - assigned[other].keys()) & variables.keys():
                raise ChangesVariableError(name, variables[handle])


def _assigned(function: Any, frozen: FrozenSignature) -> dict[int, str]:
    """Maps the id() of each assigned variable's handle to the variable's name."""
    variables = variables_of(function)
    return {
        id(handle): variables[inside.op.name].name
        for handle, inside in function.graph.captures
        if inside.op.name in frozen.assigned
    }
