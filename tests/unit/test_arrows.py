"""Checks the includes of cc/core, cc/engine, cc/tensorflow and of each device, and that
no test imports another test."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The project's headers that a folder may include besides its own, and the libraries
# that it may include in angle brackets.
ALLOWED = {
    "cc/core": ([], ["nlohmann/"]),
    "cc/engine": (["cc/core/"], ["nlohmann/"]),
    "cc/engine/cpu": (["cc/core/", "cc/engine/(backend|host)/"], ["dnnl"]),
    "cc/engine/cuda": (
        ["cc/core/", "cc/engine/(backend|host)/"],
        ["cuda", "cudnn", "nvrtc", "nlohmann/"],
    ),
    "cc/tensorflow": (
        [
            "cc/core/",
            r"cc/engine/((backend/arrays|host/shared_objects)|devices|profiler|program)\.h",
            # Functions that a graph composes are evaluated with the engine's own code.
            r"cc/engine/cpu/kernels/(activations|broadcast)\.h",
            "(absl|tensorflow|tsl|xla)/",
        ],
        ["nlohmann/"],
    ),
}
# The only file that may include every device.
EVERY_DEVICE = "cc/engine/devices.cc"


def folder_of(file: str) -> str:
    """The innermost folder of ALLOWED that contains a file."""
    return max((f for f in ALLOWED if file.startswith(f + "/")), key=len)


@pytest.mark.parametrize("folder", ALLOWED)
def test_includes(folder):
    ours, libraries = ALLOWED[folder]
    files = {str(path.relative_to(ROOT)): path for path in (ROOT / folder).rglob("*.*")}
    checked = [
        name
        for name in files
        if name.endswith((".cc", ".h"))
        and folder_of(name) == folder
        and name != EVERY_DEVICE
        and not name.endswith("_test.cc")
    ]
    assert checked
    for name in checked:
        text = files[name].read_text()
        for quote, header in re.findall(r'^#include (["<])([^">]+)', text, re.M):
            if quote == '"':
                assert re.match("|".join([folder + "/", *ours]), header), (name, header)
                if header.startswith(folder + "/"):
                    assert folder_of(header) == folder, (name, header)
            elif "/" in header or header.endswith((".h", ".hpp")):
                system = [r"sys/", r"linux/", r"[a-z]+\.h$"]
                assert re.match("|".join(system + libraries), header), (name, header)


def imported(tree: ast.AST) -> set[str]:
    """All parts of the dotted names that a module imports."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.update((node.module or "").split("."))
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(part for n in node.names for part in n.name.split("."))
    return names


def test_no_test_imports_a_test():
    files = sorted((ROOT / "tests").rglob("*.py"))
    tests = {file.stem for file in files if file.stem.startswith("test_")}
    assert Path(__file__).stem in tests
    for file in files:
        found = imported(ast.parse(file.read_text())) & tests
        assert not found, (file, found)
