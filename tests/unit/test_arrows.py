"""Checks which folders of cc include which, and what Python files import."""

import ast
import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ["cc/core", "cc/core/ir"]
# Folder of cc -> the other folders from which its files may include headers. The
# folders are listed from the lowest layer to the highest. A new folder needs an entry
# here.
ARROWS = {
    "cc/core": [],
    "cc/core/ops": ["cc/core"],
    "cc/core/ir": ["cc/core", "cc/core/ops"],
    "cc/core/transforms": [*CORE, "cc/core/ops"],
    "cc/engine/host": ["cc/core"],
    "cc/engine/backend": [*CORE, "cc/core/transforms"],
    "cc/engine/trace": [*CORE, "cc/engine/backend"],
    "cc/engine/cpu/threads": ["cc/engine/host"],
    "cc/engine/cpu/kernels": [*CORE, "cc/engine/backend", "cc/engine/cpu/threads"],
    "cc/engine/cpu/onednn": [
        "cc/core/ir",
        "cc/engine/backend",
        "cc/engine/cpu/kernels",
        "cc/engine/cpu/threads",
        "cc/engine/host",
    ],
    "cc/engine/cpu/tasks": [
        "cc/engine/backend",
        "cc/engine/cpu/kernels",
        "cc/engine/cpu/onednn",
        "cc/engine/cpu/threads",
    ],
    "cc/engine/cpu": [
        "cc/core",
        "cc/engine/backend",
        "cc/engine/cpu/kernels",
        "cc/engine/cpu/onednn",
        "cc/engine/cpu/tasks",
        "cc/engine/cpu/threads",
        "cc/engine/host",
        "cc/engine/trace",
    ],
    "cc/engine/cuda/driver": ["cc/core", "cc/engine/backend"],
    "cc/engine/cuda/kernels": [*CORE, "cc/engine/backend", "cc/engine/cuda/driver"],
    "cc/engine/cuda/timing": [
        "cc/core",
        "cc/engine/backend",
        "cc/engine/cuda/driver",
        "cc/engine/cuda/kernels",
    ],
    "cc/engine/cuda/cudnn": [
        *CORE,
        "cc/engine/backend",
        "cc/engine/cuda/driver",
        "cc/engine/cuda/kernels",
        "cc/engine/cuda/timing",
        "cc/engine/host",
    ],
    "cc/engine/cuda": [
        *CORE,
        "cc/engine/backend",
        "cc/engine/cuda/cudnn",
        "cc/engine/cuda/driver",
        "cc/engine/cuda/kernels",
        "cc/engine/cuda/timing",
    ],
    "cc/engine": [
        *CORE,
        "cc/core/ops",
        "cc/core/transforms",
        "cc/engine/backend",
        "cc/engine/host",
        "cc/engine/trace",
    ],
    "cc/tensorflow": ["cc/core"],
    "cc/tensorflow/graph": [*CORE, "cc/tensorflow"],
    "cc/tensorflow/shapes": [
        *CORE,
        "cc/engine/host",
        "cc/tensorflow",
        "cc/tensorflow/graph",
    ],
    "cc/tensorflow/import": [*CORE, "cc/tensorflow/graph", "cc/tensorflow/shapes"],
    "cc/tensorflow/fuse": [
        "cc/core/ops",
        # The rules evaluate a graph's functions as the engine does.
        "cc/engine/cpu/kernels",
        "cc/tensorflow/graph",
        "cc/tensorflow/import",
        "cc/tensorflow/shapes",
    ],
    "cc/tensorflow/partition": [
        "cc/core/ir",
        # The precision depends on what the processor can do.
        "cc/engine",
        "cc/tensorflow/fuse",
        "cc/tensorflow/graph",
        "cc/tensorflow/import",
        "cc/tensorflow/shapes",
    ],
    "cc/tensorflow/cache": [*CORE, "cc/engine", "cc/engine/host", "cc/tensorflow"],
    "cc/tensorflow/ops": [
        *CORE,
        "cc/engine",
        "cc/engine/backend",
        "cc/engine/host",
        "cc/engine/trace",
        "cc/tensorflow",
        "cc/tensorflow/cache",
        "cc/tensorflow/graph",
        "cc/tensorflow/import",
    ],
    "cc/tensorflow/plugin": [
        *CORE,
        "cc/engine",
        "cc/tensorflow",
        "cc/tensorflow/cache",
        "cc/tensorflow/graph",
        "cc/tensorflow/ops",
        "cc/tensorflow/partition",
        "cc/tensorflow/shapes",
    ],
    "cc/tensorflow/convert": [
        *CORE,
        "cc/tensorflow",
        "cc/tensorflow/graph",
        "cc/tensorflow/partition",
        "cc/tensorflow/plugin",
        "cc/tensorflow/shapes",
    ],
}
# (Including folder, included folder) -> the only headers that may be included.
HEADERS = {
    ("cc/tensorflow", "cc/engine"): ["devices.h", "profiler.h", "program.h"],
    ("cc/tensorflow", "cc/engine/backend"): ["arrays.h"],
    ("cc/tensorflow", "cc/engine/host"): ["fork_guard.h", "shared_objects.h"],
    ("cc/tensorflow", "cc/engine/trace"): ["profiler_hook.h"],
    ("cc/tensorflow", "cc/engine/cpu/kernels"): ["activations.h", "broadcast.h"],
}
# Folder -> the libraries whose headers its files may include. For a file, the entry of
# the innermost folder is used. Headers of the operating system and of C++ are always
# allowed.
LIBRARIES = {
    "cc/core": ["nlohmann/"],
    "cc/engine": ["nlohmann/"],
    "cc/engine/cpu": ["dnnl"],
    "cc/engine/cpu/kernels": [],
    "cc/engine/cpu/threads": [],
    "cc/engine/cuda": ["cuda", "cudnn", "nvrtc", "nlohmann/"],
    "cc/tensorflow": ["absl/", "nlohmann/", "tensorflow/", "tsl/", "xla/"],
}
# The only file that may include every device.
EVERY_DEVICE = "cc/engine/devices.cc"


def folder_of(file: str) -> str:
    return file.rpartition("/")[0]


def includes() -> dict[str, list[str]]:
    """The headers that each source and header of the product includes."""
    files = {str(path.relative_to(ROOT)): path for path in (ROOT / "cc").rglob("*.*")}
    return {
        name: re.findall(r'^#include ["<]([^">]+)', path.read_text(), re.M)
        for name, path in files.items()
        if name.endswith((".cc", ".h"))
        and not name.endswith("_test.cc")
        and not name.startswith("cc/third_party/")
        and name != EVERY_DEVICE
    }


def arrows() -> dict[tuple[str, str], str]:
    """The pairs of folders of which the first includes the second, with an example."""
    found = {}
    for name, headers in includes().items():
        for header in headers:
            pair = folder_of(name), folder_of(header)
            if header.startswith("cc/") and pair[0] != pair[1]:
                found[pair] = f"{name} includes {header}"
    return found


def test_all_folders_are_known():
    assert {folder_of(name) for name in includes()} == set(ARROWS)


def test_arrows():
    allowed = {(one, other) for one, others in ARROWS.items() for other in others}
    for pair, example in arrows().items():
        assert pair in allowed, example


def test_no_circles():
    # If folders include each other in a cycle, this raises CycleError with their names.
    graphlib.TopologicalSorter(ARROWS).prepare()


@pytest.mark.parametrize(("below", "folder"), HEADERS)
def test_headers(below, folder):
    for name, headers in includes().items():
        for header in headers:
            if name.startswith(below + "/") and folder_of(header) == folder:
                allowed = HEADERS[below, folder]
                assert Path(header).name in allowed, (name, header)


def test_libraries():
    system = [r"[a-z_]+$", r"[a-z]+\.h$", r"sys/", r"linux/"]
    for name, headers in includes().items():
        room = max((f for f in LIBRARIES if name.startswith(f + "/")), key=len)
        allowed = "|".join(["cc/", *system, *LIBRARIES[room]])
        for header in headers:
            assert re.match(allowed, header), (name, header)


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


def test_imported_modules_exist():
    for folder in ("ios_tf", "benchmarks", "tests", "examples"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.ImportFrom):
                    continue
                parts = (node.module or "").split(".")
                if parts[0] in ("ios_tf", "benchmarks"):
                    module = ROOT.joinpath(*parts)
                    exists = module.is_dir() or module.with_suffix(".py").is_file()
                    assert exists, f"{file}:{node.lineno} imports {node.module}"
