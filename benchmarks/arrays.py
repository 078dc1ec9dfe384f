"""Arrays for the engine: its number formats and aligned memory."""

from __future__ import annotations

import numpy as np

_ALIGNMENT = 64  # bytes


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds values to float32 values that `dtype` represents exactly."""
    return decoded(encoded(values, dtype), dtype).astype(np.float32)


def encoded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Converts to the engine's format; bfloat16 is stored as bits in uint16."""
    if dtype != "bfloat16":
        return values.astype(dtype)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def decoded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Converts from the engine's format to float64."""
    if dtype != "bfloat16":
        return values.astype(np.float64)
    return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def aligned(values: np.ndarray) -> np.ndarray:
    """Returns a dense copy whose memory begins at a cache line."""
    memory = np.empty(values.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + values.nbytes].view(values.dtype)
    copy = copy.reshape(values.shape)
    copy[...] = values
    return copy
