"""Bitsets: many sets of operators as columns of 64-bit words, for numpy.

An array of sets is uint64[words, sets]. Each column is a set: bit i of its words, taken
together as one number, says whether operator i is in the set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ios_tf.scheduler.problem import operators_of


def words_for(operators: int) -> int:
    """The number of 64-bit words in a set of this many operators."""
    return -(-operators // 64)


def column(mask: int, words: int) -> np.ndarray:
    """One set, uint64[words, 1], from a bitmask."""
    split = [(mask >> 64 * i) & (2**64 - 1) for i in range(words)]
    return np.array(split, np.uint64)[:, np.newaxis]


def to_mask(sets: np.ndarray, i: int) -> int:
    """The bitmask of one set of an array."""
    return sum(word << 64 * k for k, word in enumerate(sets[:, i].tolist()))


def contains(sets: np.ndarray, mask: int) -> np.ndarray:
    """bool[sets]: true if the set contains all operators of the bitmask."""
    return ~np.any(~sets & column(mask, len(sets)), axis=0)


def contained(sets: np.ndarray, mask: int) -> np.ndarray:
    """bool[sets]: true if the set has only operators of the bitmask."""
    return ~np.any(sets & ~column(mask, len(sets)), axis=0)


def sizes(sets: np.ndarray) -> np.ndarray:
    """int64[sets]: the number of operators in each set."""
    return np.bitwise_count(sets).sum(axis=0, dtype=np.int64)


def unions(sets: np.ndarray, masks: Sequence[int], words: int) -> np.ndarray:
    """For each set, the union of the bitmasks of its operators, uint64[words, sets].

    Args:
      sets: an array of sets.
      masks: for each operator, a bitmask.
      words: the number of 64-bit words of a bitmask.
    """
    result = np.zeros((words, sets.shape[1]), np.uint64)
    present = to_mask(np.bitwise_or.reduce(sets, axis=1, keepdims=True), 0)
    for op in operators_of(present):
        has = sets[op // 64] >> np.uint64(op % 64) & np.uint64(1)
        # The left operand has all bits set if the operator is in the set, and is 0
        # otherwise.
        result |= (~has + np.uint64(1)) & column(masks[op], words)
    return result


def component(
    seeds: np.ndarray, sets: np.ndarray, adjacent: Sequence[int]
) -> np.ndarray:
    """For each set, the operators that can be reached from its seeds inside the set.

    Args:
      seeds: for each set, some of its operators.
      sets: an array of sets.
      adjacent: for each operator, the bitmask of its adjacent operators.
    """
    reached = seeds
    while True:
        following = reached | (unions(reached, adjacent, len(sets)) & sets)
        if np.array_equal(following, reached):
            return reached
        reached = following


def lowest(sets: np.ndarray) -> np.ndarray:
    """The lowest operator of each set, as an array of sets."""
    result = np.zeros_like(sets)
    found = np.zeros(sets.shape[1], bool)
    for i, word in enumerate(sets):
        result[i] = np.where(found, np.uint64(0), word & (~word + np.uint64(1)))
        found |= word != 0
    return result
