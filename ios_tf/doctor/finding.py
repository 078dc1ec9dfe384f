"""A finding of `ios_tf doctor` about one thing."""

from __future__ import annotations

import dataclasses

OK, NOTE, WARNING, ERROR = "ok", "note", "warning", "error"
STATUSES = (OK, NOTE, WARNING, ERROR)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
      topic: the part of the report, such as "GPU".
      name: the thing.
      value: what was found.
      status: OK; NOTE if something is optional or unusual; WARNING if IOS-TF works, but
        worse than it could; ERROR if converted models do not run on the engine.
      advice: what the user can do; empty if there is nothing to do.
    """

    topic: str
    name: str
    value: str
    status: str = OK
    advice: str = ""
