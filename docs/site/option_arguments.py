"""Shows the arguments that ios_tf.options.with_options adds to a function.

mkdocstrings reads sources without running them, so it sees only the parameter `options`
and the line "{options}" of the docstring.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import griffe

from ios_tf import options

_DECORATOR = re.compile(r"with_options\((\w+)\)")


class OptionArguments(griffe.Extension):
    """Replaces the parameter `options` of each such function by the options."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        texts = [str(decorator.value) for decorator in func.decorators]
        found = [match for text in texts if (match := _DECORATOR.fullmatch(text))]
        if not found or func.docstring is None:
            return
        cls = getattr(options, found[0][1])
        fields = {field.name: field for field in dataclasses.fields(cls)}
        before = [*func.parameters][:-1]
        added = [
            griffe.Parameter(
                name,
                annotation=fields[name].type,
                kind=griffe.ParameterKind.keyword_only,
                default=_shown(fields[name].default),
            )
            for name in options.options_of(cls)
        ]
        func.parameters = griffe.Parameters(*before, *added)
        described = options.argument_descriptions(cls)
        # The docstring's indentation is gone already.
        func.docstring.value = func.docstring.value.replace(
            "  {options}\n", re.sub(r"(?m)^    ", "", described)
        )


def _shown(default: object) -> str:
    return "..." if callable(default) else repr(default)
