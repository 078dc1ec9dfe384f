"""Asks NVIDIA's own cuDNN, without a GPU, which plans it proposes for the engine's
graphs. proxy.cc records the answers, and the plans that the engine would time. cuDNN
runs in separate processes, because the fake cuDNN of other tests has the same names."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cuda_helpers

sys.path.append(str(Path(__file__).resolve().parents[2]))  # has the benchmarks

from benchmarks import gpu_data
from ios_tf.native import engine

HERE = Path(__file__).resolve().parent
DEVICES = HERE / "devices"
_TENSOR_CORE = 0  # CUDNN_NUMERICAL_NOTE_TENSOR_CORE
_COMPILES = 0  # CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION
# "float32" may be computed in TF32, and "exact" is float32 without TF32.
DTYPES = tuple(gpu_data.PADDED_FOR)

MISSING = "no cuDNN 9.8 or newer: pip install 'ios-tf[cudnn]' (1.6 GB)"
_OLDEST = (9, 8)  # the first version that accepts a device in JSON


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan that the engine asked cuDNN to build.

    Attributes:
      numerical, behavior: cuDNN's notes on the plan's engine.
      status: the status code of building the plan; 0 means success.
      timed: whether the plan was run. The engine runs plans to compare their times.
    """

    name: str
    numerical: Sequence[int]
    behavior: Sequence[int]
    workspace: int
    status: int
    timed: bool

    @property
    def tensor_cores(self) -> bool:
        return _TENSOR_CORE in self.numerical

    @property
    def compiles(self) -> bool:
        return _COMPILES in self.behavior


@dataclasses.dataclass
class Graph:
    """cuDNN's answer to one graph of operations.

    Attributes:
      key: the key that the fake cuDNN uses for this graph (fake_cuda/graph_text.h).
      proposed: mode of the heuristics -> names of the proposed engines, with their
        knobs, in order.
      plans: the plans that were built, in order.
      failed: the plans that could not be built.
    """

    key: str
    proposed: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    plans: list[Plan] = dataclasses.field(default_factory=list)
    failed: list[Plan] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Answer:
    """cuDNN's answer to one block of convolutions.

    Attributes:
      error: why the engine cannot run the block; "" if it can.
      plans: the plans that were built, in order.
      graphs: the answers to the block's graphs.
      loaded: the number of plans that were loaded from JSON, without heuristics.
    """

    error: str
    plans: Sequence[Plan]
    graphs: Sequence[Graph]
    loaded: int

    @property
    def timed(self) -> list[Plan]:
        return [plan for plan in self.plans if plan.timed]

    @property
    def proposed(self) -> list[str]:
        """The engines that all modes of the heuristics propose for all graphs."""
        lists = [names for graph in self.graphs for names in graph.proposed.values()]
        return [name for names in lists for name in names]


def find() -> Path | None:
    """The path of NVIDIA's library in a wheel, or None if there is none."""
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations if spec else []:
        for path in Path(root).glob("cudnn/lib/libcudnn.so.9"):
            header = path.parents[1] / "include" / "cudnn_version.h"
            text = header.read_text() if header.exists() else ""
            numbers = dict(re.findall(r"#define CUDNN_(M\w+) (\d+)", text))
            version = int(numbers.get("MAJOR", 0)), int(numbers.get("MINOR", 0))
            if version >= _OLDEST:
                return path
    return None


# The functions with which cuDNN loads code that it has compiled. They must succeed,
# although the proxy never runs the code.
_LOADERS = ("cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction")


def _rest_of_driver() -> str:
    """The source of driver functions that the fake driver lacks.

    All functions except _LOADERS fail. They must exist, because cuDNN proposes no
    compiled engine if a function of the driver is missing.
    """
    headers = (d / "cuda.h" for d in cuda_helpers.include_directories())
    text = next(header for header in headers if header.exists()).read_text()
    names = set(re.findall(r"\bCUDAAPI\s+(cu\w+)\s*\(", text))
    bases = {re.sub(r"(_v\d+|_ptsz|_ptds)+$", "", name) for name in names}
    versions = ("", "_v2", "_v3", "_v4")
    failing = {base + version for base in bases for version in versions}
    weak = "__attribute__((weak)) int"
    lines = [
        f"{weak} {name}() {{ return 801; }}" for name in failing.difference(_LOADERS)
    ]
    lines += [f"int {name}(void** it) {{ *it = &any; return 0; }}" for name in _LOADERS]
    return "\n".join(["static int any;", 'extern "C" {', *sorted(lines), "}", ""])


@functools.cache
def _build(library: Path) -> Path:
    """Builds a directory with the proxy and the fake driver and NVRTC for the
    engine."""
    fakes = cuda_helpers.build_fakes()
    source = HERE / "proxy.cc"
    # The proxy uses the fake cuDNN's code for descriptors and for the keys of graphs.
    shared = [f"{fakes / name}.o" for name in ("descriptor.cc", "graph_text.cc")]
    command = [*shlex.split(os.environ.get("CXX", "g++")), "-std=c++17", "-O1"]
    command += ["-Wall", "-fPIC", "-shared"]
    command += [f"-isystem{library.parents[1] / 'include'}"]
    command += [f"-isystem{d}" for d in cuda_helpers.include_directories()]
    command += ["-ldl"]
    rest = _rest_of_driver()
    text = repr(command).encode() + rest.encode() + source.read_bytes()
    text += fakes.name.encode()
    digest = hashlib.sha256(text).hexdigest()[:16]
    target = fakes.parent / f"proxy.{digest}"
    if not target.exists():
        building = target.with_name(f"{target.name}.{os.getpid()}")
        building.mkdir()
        driver = building / "libcuda.so.1"
        (building / "rest.cc").write_text(rest)
        objects = [f"{fakes / n}.o" for n in cuda_helpers.LIBRARIES[driver.name]]
        objects += [str(building / "rest.cc"), "-Wl,-soname,libcuda.so.1"]
        subprocess.run([*command, "-o", str(driver), *objects], check=True)
        command += [str(source), *shared, str(driver), "-Wl,-rpath,$ORIGIN"]
        subprocess.run([*command, "-o", str(building / "libcudnn.so.9")], check=True)
        (building / "libnvrtc.so.13").symlink_to(fakes / "libnvrtc.so.13")
        with contextlib.suppress(OSError):  # another process was faster
            building.rename(target)
        shutil.rmtree(building, ignore_errors=True)
    return target


def _run(
    library: Path, script: str, blocks: Sequence[Any], **environment: str
) -> dict[str, Any]:
    """Runs a script of this folder with the proxy for `library`; returns its output."""
    directory = _build(library)
    # cuDNN itself may need NVRTC and cuBLAS, which other wheels of NVIDIA contain.
    beside = [str(p) for p in library.parents[2].glob("*/lib")]
    paths = [str(HERE), str(HERE.parents[1]), *sys.path]
    done = subprocess.run(
        [sys.executable, str(HERE / script), str(directory)],
        input=json.dumps(list(blocks)),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "LD_LIBRARY_PATH": os.pathsep.join(beside),
            "IOS_TF_CUDA_LIBRARIES": str(directory),
            "IOS_TF_PLAN_CACHE": "",
            "IOS_TF_CODE_CACHE": "",
            "FAKE_CUDA_OPTIONS": "inert=1",
            "CUDNN_PROXY_LIBRARY": str(library),
            "CUDNN_PROXY_DEVICE": str(DEVICES / "h200.json"),
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def answers(
    library: Path,
    blocks: Sequence[Mapping[str, Any]],
    device: str = "h200",
    caches: Path | str = "",
    workspaces: int = 1,
) -> tuple[int, list[Answer]]:
    """Returns cuDNN's version, and its answers to blocks of convolutions.

    Args:
      library: the result of find().
      blocks: each block has one convolution, and perhaps a concat after it.
      device: the name of a file in DEVICES.
      caches: a directory that keeps plans for later calls; "" keeps none.
      workspaces: the factor by which the workspaces of plans are multiplied.
    """
    environment = {
        "CUDNN_PROXY_DEVICE": str(DEVICES / f"{device}.json"),
        "CUDNN_PROXY_WORKSPACES": str(workspaces),
    }
    if caches:
        environment["IOS_TF_PLAN_CACHE"] = f"{caches}/plans"
        environment["IOS_TF_CODE_CACHE"] = f"{caches}/code"
    result = _run(library, "ask.py", blocks, **environment)
    return result["version"], [_answer(**one) for one in result["answers"]]


def statuses(library: Path) -> dict[str, dict[str, int]]:
    """Attribute -> results of finalizing descriptors without it; see descriptors.py."""
    return _run(library, "descriptors.py", [])


def _answer(error: str, notes: Sequence[Mapping[str, Any]]) -> Answer:
    plans: list[Plan] = []
    graphs: dict[str, Graph] = {}
    loaded = 0
    ran = {note["ran"] for note in notes if "ran" in note}
    for note in notes:
        if "loaded" in note:
            loaded += note["loaded"] == 0
        if "graph" not in note:
            continue
        graph = graphs.setdefault(note["graph"], Graph(note["graph"]))
        if "mode" in note:
            names = graph.proposed.setdefault(str(note["mode"]), [])
            names += [proposal["name"] for proposal in note["proposed"]]
            continue
        about, status = note["plan"], note["status"]
        plan = Plan(
            **about, workspace=note["workspace"], status=status, timed=note["id"] in ran
        )
        (graph.failed if status else graph.plans).append(plan)
        if status == 0:
            plans.append(plan)
    return Answer(error, plans, list(graphs.values()), loaded)


@functools.cache
def _convolutions() -> dict[str, dict[str, list[dict[str, Any]]]]:
    return json.loads(Path(gpu_data.CONVOLUTIONS).read_text())


def blocks(network: str, dtype: str, batch: int) -> list[dict[str, Any]]:
    """The different convolutions of a network as blocks. `dtype` is one of DTYPES."""
    exact = {"tf32": False} if dtype == "exact" else {}
    return [
        gpu_data.block(one, batch, dtype) | exact
        for one in _convolutions()[network][gpu_data.PADDED_FOR[dtype]]
    ]


def tensors(block: Mapping[str, Any]) -> tuple[list[int], list[int], list[int]]:
    """The shapes of the input, filter and output of a block's only convolution."""
    operator, *_ = block["operators"]
    x = block["inputs"][0]
    window = operator.get("kernel", [1, 1])
    w = [*window, x[-1] // operator.get("groups", 1), operator["filters"]]
    return x, w, engine.problem(block)["shapes"][0]


def element_bytes(dtype: str) -> int:
    return 4 if dtype in ("float32", "exact") else 2


def multiple(dtype: str) -> int:
    """Tensor cores need a number of channels that is a multiple of this number."""
    return 4 if dtype == "float32" else 8


def pads(plan: Plan, x: Sequence[int], w: Sequence[int], y: Sequence[int]) -> bool:
    """Whether a plan seems to copy tensors to pad their channels.

    Its workspace then has the size of padded copies in half precision, and less than
    1 KiB more. The filter is copied, and so are the input, the output or both.
    """

    def padded(n: int) -> int:
        return -(-n // 8) * 8

    def copy(shape: Sequence[int]) -> int:
        return 2 * math.prod(shape[:-1]) * padded(shape[-1])

    both = 2 * math.prod(w[:-2]) * padded(w[-2]) * padded(w[-1])
    copies = (both + copy(x), both + copy(y), both + copy(x) + copy(y))
    return any(0 <= plan.workspace - size < 1024 for size in copies)


def networks() -> list[str]:
    """The names of all networks. The network that takes cuDNN longest is last."""
    return sorted(_convolutions(), key=lambda name: name == gpu_data.IN_CONCATS)


def in_concat(block: Mapping[str, Any]) -> bool:
    """Whether the convolution writes a part of a larger tensor."""
    return len(block["operators"]) > 1
