"""show: the schedule of a converted model as text, stage by stage."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from ios_tf import graphs, optimizer
from ios_tf.errors import UserError
from ios_tf.source import saved_model

# In the name of a merged convolution; cc/tensorflow/rewrite.cc.
_MERGED = "/ios_merge"


def show(model: str, signature: str | None = None) -> str:
    """The schedules of a converted SavedModel.

    Args:
      model: directory of the SavedModel.
      signature: the one to show; by default all.

    Raises:
      UserError: `model` is no converted SavedModel.
    """
    with saved_model(model) as source:
        loaded = graphs.load(source)
    keys = [signature] if signature else sorted(loaded.signatures)
    same: dict[Any, list[str]] = {}
    frozen = {}
    for key in keys:
        if key not in loaded.signatures:
            raise UserError(graphs.no_signature(key, loaded))
        one = graphs.freeze(key, loaded.signatures[key])
        if optimizer.is_converted(one):
            same.setdefault(one.key(), []).append(key)
            frozen[key] = one
    if not same:
        raise UserError(f"{model}: not converted by ios_tf: it has no schedules")
    lines = []
    for names in same.values():
        lines.append(f"signature {', '.join(names)}")
        # Half precision is computed on GPUs only.
        one = frozen[names[0]]
        programs = optimizer.lowered_programs(one) or optimizer.lowered_programs(
            one, device="gpu"
        )
        for number, program in enumerate(programs, 1):
            lines += _region(number, program["block"], program["schedule"])
    return "\n".join(lines)


def _region(
    number: int, block: Mapping[str, Any], schedule: Mapping[str, Any]
) -> Iterator[str]:
    operators, stages = block["operators"], schedule["stages"]
    yield f"region {number}: {len(operators)} operators, {len(stages)} stages"
    # Long scopes around the whole network say nothing.
    scope = posixpath.commonpath([posixpath.dirname(op["name"]) for op in operators])
    skip = len(scope) + 1 if scope else 0
    if scope:
        yield f"  names are below {scope}"
    for i, stage in enumerate(stages, 1):
        groups = [
            [operators[op] for op in group if not _is_part(operators[op])]
            for group in stage["groups"]
        ]
        merged = any(_MERGED in op["name"] for group in groups for op in group)
        strategy = "merge" if merged else "concurrent"
        yield f"  stage {i}  {strategy}"
        for group in groups:
            yield "    " + " > ".join(
                f"{op['name'][skip:]} ({op['type']})" for op in group
            )


def _is_part(operator: Mapping[str, Any]) -> bool:
    """Whether it is a slice of a merged convolution."""
    return operator["type"] == "slice" and _MERGED in operator["name"]
