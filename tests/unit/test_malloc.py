"""The memory that a command reserves for the handling of its errors."""

import pytest
from commands import run_python

_LIMITED = """
import resource
from ios_tf.native import malloc

def limit(mebibytes):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + (mebibytes << 20), hard))
"""


def printed(code):
    return run_python("-c", _LIMITED + code).stdout


@pytest.mark.parametrize("size", [1 << 10, 1 << 16, 1 << 20])
def test_there_is_memory_after_a_lack_of_it(size):
    code = f"""
limit(40)
kept = []
try:
    with malloc.reserve():
        while True:
            kept.append(bytearray({size}))
except MemoryError:
    print(len(kept) * {size} > 4 << 20, len(bytearray(4 << 20)))
"""
    assert printed(code) == f"True {4 << 20}\n"


def test_without_memory_nothing_is_reserved():
    code = """
limit(1)
try:
    malloc.reserve()
except MemoryError as error:
    print(error)
"""
    assert printed(code) == "8388608 bytes cannot be reserved\n"
