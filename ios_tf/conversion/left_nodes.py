"""Decisions about the nodes that the importer leaves to TensorFlow."""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping, Sequence

from ios_tf.model.function_library import CONVOLUTIONS
from ios_tf.reasons import BY_CODE, Decision, Reason
from ios_tf.tables import counted

# A node of `Collected.report`: {"node", "op", "code", "text"}.
_Left = Mapping[str, str]
_MOST_TEXTS = 2


def decisions_about(left: Sequence[_Left], others: Collection[str]) -> list[Decision]:
    """One decision for each reason, with all nodes that are left for it.

    Args:
      left: the nodes, as in `Collected.report`.
      others: types of convolutions that the engine does not support.
    """
    by_code: dict[str, list[_Left]] = collections.defaultdict(list)
    for one in left:
        code = one["code"]
        if one["op"] in others and code == Reason.NODE_TYPE.code:
            code = Reason.CONVOLUTION_TYPE.code
        by_code[code].append(one)
    return [_decision(code, by_code[code]) for code in sorted(by_code)]


def _decision(code: str, left: Sequence[_Left]) -> Decision:
    # Convolutions come first, because the sentence of the decision names only some of
    # the nodes.
    left = sorted(left, key=lambda one: "Conv" not in one["op"])
    types = collections.Counter(one["op"] for one in left)
    verb = "is" if len(left) == 1 else "are"
    nodes = f"{_counted(types)} ({_some(list(types), ' types')})"
    sentence = f"{nodes} {verb} left to TensorFlow: {_texts(left)}"
    names = tuple(one["node"] for one in left)
    return Decision(BY_CODE[code], sentence, names, dict(types))


def _counted(types: Mapping[str, int]) -> str:
    """The number of nodes, in words that say whether they are convolutions."""
    convolutions = sum(types.get(op, 0) for op in CONVOLUTIONS)
    others = sum(types.values()) - convolutions
    parts = []
    if convolutions:
        parts.append(counted(convolutions, "convolution", "convolutions"))
    if others:
        other = "other " if convolutions else ""
        parts.append(counted(others, f"{other}node", f"{other}nodes"))
    return " and ".join(parts)


def _texts(left: Sequence[_Left]) -> str:
    """The most frequent texts of a reason, each with names of nodes."""
    names = collections.defaultdict(list)
    for one in left:
        names[one["text"]].append(one["node"])
    most = sorted(names, key=lambda text: -len(names[text]))
    shown = [f"{text} ({_some(names[text])})" for text in most[:_MOST_TEXTS]]
    rest = sum(len(names[text]) for text in most[_MOST_TEXTS:])
    if rest:
        more = counted(rest, "more node", "more nodes")
        shown.append(f"{more} for similar reasons")
    return "; ".join(shown)


def _some(names: Sequence[str], noun: str = "") -> str:
    """One or two names, and how many more there are."""
    more = len(names) - 2
    return ", ".join(names[:2]) + (f" and {more} more{noun}" if more > 0 else "")
