"""Reasons with stable codes, such as IOS012, for the decisions in reports and logs.

The modules `nodes`, `models`, `comparisons`, `measurements` and `loading` define the
reasons. docs/reference/reasons.md is generated from these modules, and `ios_tf explain`
prints the reasons. cc/core/reasons.def lists the reasons that C++ gives, and a test
checks that these modules have the same ones.
"""

from __future__ import annotations

import difflib
import types

from ios_tf.reasons import comparisons, loading, measurements, models, nodes
from ios_tf.reasons.reason import Decision, Reason

__all__ = ["BY_CODE", "GROUPS", "REASONS", "Decision", "Reason", "find"]


def _reasons_of(module: types.ModuleType) -> tuple[Reason, ...]:
    return tuple(one for one in vars(module).values() if isinstance(one, Reason))


# Heading -> reasons, in the order of their codes.
GROUPS = {
    "Nodes that are left to TensorFlow": _reasons_of(nodes),
    "Regions, signatures and models": _reasons_of(models),
    "Comparisons with the original": _reasons_of(comparisons),
    "Measurements and searches": _reasons_of(measurements),
    "Loading models, enable and the schedule cache": _reasons_of(loading),
}
REASONS = tuple(reason for group in GROUPS.values() for reason in group)
BY_CODE = {reason.code: reason for reason in REASONS}


def find(text: str) -> Reason:
    """The reason that a user names by its code, number or slug, in any case.

    Raises:
      ValueError: there is no such reason. The message suggests one that looks alike.
    """
    word = text.strip().strip("[]").lower()
    digits = word.removeprefix("ios")
    for reason in REASONS:
        if word == reason.slug:
            return reason
        if digits.isdecimal() and digits.isascii() and int(digits) == reason.number:
            return reason
    names = {name.lower(): name for r in REASONS for name in (r.code, r.slug)}
    similar = difflib.get_close_matches(word, names, n=1, cutoff=0.75)
    hint = "The command ios_tf explain lists all codes"
    if similar:
        hint = f"Did you mean {names[similar[0]]}?"
    raise ValueError(f"{text!r} is not the code of a reason. {hint}")
