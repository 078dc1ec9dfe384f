"""Arrays beside memory that no one may access, so that reading over an end crashes."""

import ctypes
import mmap

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_PROT_NONE = 0


def guarded(array: np.ndarray, at_end: bool) -> np.ndarray:
    """A copy that ends at a page without access, or begins after such a page."""
    array = np.ascontiguousarray(array)
    page = mmap.PAGESIZE
    pages = -(-max(array.nbytes, 1) // page)
    memory = mmap.mmap(-1, (pages + 2) * page)
    whole = np.frombuffer(memory, np.uint8)
    for first in (0, (pages + 1) * page):
        address = ctypes.c_void_p(whole.ctypes.data + first)
        if _LIBC.mprotect(address, ctypes.c_size_t(page), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect failed")
    start = page * (pages + 1) - array.nbytes if at_end else page
    copy = whole[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
