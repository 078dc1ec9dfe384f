"""Python has the names, limits and function types that C++ has."""

import ctypes
import re
from pathlib import Path

import pytest

from benchmarks.operator_samples import sample_blocks
from ios_tf.native import engine, plugin
from ios_tf.reasons import Reason
from ios_tf.scheduler import document
from ios_tf.tuning import algorithms

ROOT = Path(__file__).resolve().parents[2]
NAMES = engine.shared_names()


def test_limits():
    assert NAMES["version"] == document.VERSION
    assert NAMES["limits"] == {
        "document_bytes": document.MAX_BYTES,
        "document_depth": document.MAX_DEPTH,
        "operators": document.MAX_OPERATORS,
        "dimension": document.MAX_DIMENSION,
    }


def test_names():
    assert NAMES["data_types"] == list(engine._DTYPES)
    assert NAMES["algorithms"] == ["direct", *algorithms.allowed("cpu")]


def test_reasons():
    """Python explains all reason codes that C++ uses."""
    slugs = {reason.code: reason.slug for reason in Reason}
    assert NAMES["reasons"] and NAMES["reasons"].items() <= slugs.items()


def test_names_of_the_benchmarks():
    operators = [op for block in sample_blocks() for op in block["operators"]]
    assert {op["type"] for op in operators} <= {*NAMES["operator_types"]}


def c_functions(header: str) -> dict[str, tuple[str, list[str]]]:
    """The functions that a header of C declares: their result and argument types."""
    text = re.sub(r"//[^\n]*", "", (ROOT / header).read_text())
    # An argument that is a function counts as a pointer.
    text = re.sub(r"[\w *]+\(\*\w+\)\([^()]*\)", "void* function", text)
    found = {}
    for result, name, arguments in re.findall(
        r"([\w ]+[ *]+)\b(ios_\w+)\(([^()]*)\);", text
    ):
        types = [re.sub(r"\w+$", "", a.strip()) for a in arguments.split(",")]
        found[name] = result, [] if arguments in ("", "void") else types
    return found


C_TYPES = {"void": None, "int": ctypes.c_int, "int64_t": ctypes.c_int64}
ANY_POINTER = (ctypes.c_void_p, ctypes.c_char_p)


def is_type(given, declared: str) -> bool:
    """Whether a ctypes type matches a C type. All pointer types count as equal."""
    if "*" in declared:
        return given in ANY_POINTER or hasattr(given, "contents")
    return given is C_TYPES[declared.strip()]


@pytest.mark.parametrize(
    ("signatures", "headers"),
    [
        (engine._SIGNATURES, ["cc/engine/engine_api.h"]),
        (
            plugin._SIGNATURES,
            [str(p.relative_to(ROOT)) for p in ROOT.glob("cc/tensorflow/*/*_api.h")],
        ),
    ],
    ids=["engine", "plugin"],
)
def test_signatures_are_those_of_the_headers(signatures, headers):
    functions = {k: v for header in headers for k, v in c_functions(header).items()}
    assert signatures.keys() <= functions.keys()
    for name, (result, arguments) in signatures.items():
        declared_result, declared = functions[name]
        types = [declared_result, *declared]
        for given, type_ in zip([result, *arguments], types, strict=True):
            assert is_type(given, type_), f"{name}: {type_.strip()}"
