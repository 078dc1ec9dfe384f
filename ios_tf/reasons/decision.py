"""A decision of a conversion or of the plugin, with its reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ios_tf.reasons.reason import Reason


@dataclasses.dataclass(frozen=True)
class Decision:
    """Something that was decided, and why.

    Attributes:
      reason: the reason, which docs/reference/reasons.md explains.
      sentence: what was decided, with names and values, without a full stop.
      nodes: names of the nodes or operators that the decision is about, if there are
        any.
      types: TensorFlow's type of these nodes -> the number of nodes. Empty unless the
        importer left the nodes to TensorFlow.
      unnamed: the number of nodes that the decision is about but that have no name of
        their own, such as nodes in functions.
    """

    reason: Reason
    sentence: str
    nodes: tuple[str, ...] = ()
    types: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unnamed: int = 0

    @property
    def code(self) -> str:
        """The code of the reason."""
        return self.reason.code

    @property
    def count(self) -> int:
        """The number of nodes or, for a decision about something else, 1."""
        return len(self.nodes) + self.unnamed or 1

    def __str__(self) -> str:
        """The sentence and the code, as reports and logs show them."""
        return f"{self.sentence} [{self.code}]"

    def to_json(self) -> dict[str, Any]:
        """The decision as a JSON object."""
        return {
            "code": self.code,
            "sentence": self.sentence,
            "nodes": list(self.nodes),
            "types": dict(self.types),
            "count": self.count,
        }
