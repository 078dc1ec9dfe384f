"""The fat binaries in the libraries that portable_tensorflow.py packs."""

import struct

from portable_tensorflow import blank_others

_PTX, _MACHINE_CODE = 1, 2


def entry(kind: int, architecture: int, code: bytes) -> bytes:
    return struct.pack("<HHIQ12xI32x", kind, 0, 64, len(code), architecture) + code


def fat_binary(*entries: bytes) -> bytes:
    content = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def test_only_machine_code_of_the_architecture_is_left():
    first = [entry(_MACHINE_CODE, 80, b"a" * 20), entry(_MACHINE_CODE, 90, b"b" * 24)]
    second = [entry(_PTX, 90, b"c" * 16), entry(_MACHINE_CODE, 90, b"d" * 8)]
    # Fat binaries begin at multiples of 8 bytes.
    code = bytearray(fat_binary(*first) + bytes(4 + 8) + fat_binary(*second))
    expected = code.replace(b"a", b"\0").replace(b"c", b"\0")
    assert blank_others(code, 90) == 24 + 8
    assert code == expected
