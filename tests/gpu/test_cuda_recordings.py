"""The engine with a fake cuDNN that gives the recorded answers of the real cuDNN (see
record.py), for a sample of SqueezeNet's and Inception V3's convolutions on an H200.

h200.json, a separate recording, says which plans the engine should time. The times of
plans are simulated, because the recordings were made without a GPU.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import cuda_engine
import cuda_helpers
import descriptors
import make_gpu_data
import numpy as np
import pytest
import real_cudnn
import record
from real_cudnn import Answer

from benchmarks import gpu_data
from benchmarks.network import Network
from ios_tf.native import engine

pytestmark = pytest.mark.one_core

_DEVICE = "h200"
_VARIABLE = "FAKE_CUDNN_RECORDINGS"
_SAMPLE = 10
_COMPUTED = 2  # number of convolutions to compute: those with the fewest products
# Relative to the largest value. float32 may be multiplied in TF32, which has 10 bits.
_TOLERANCE = {"float16": 1e-2, "float32": 3e-3}
_EXACT = 1e-5
_STAGES = [{"strategy": "concurrent", "groups": [[0]]}]
_SCHEDULE = {"version": 1, "stages": _STAGES}
_RUNS, _NANOSECONDS = "cudnn runs of ", "cudnn nanoseconds of "
_RECORDED = "cudnn recorded "

# Prints the plans that ran while a program was created.
_PLANS_OF = """
import json, sys
import cuda_helpers
fake = cuda_helpers.fake_cuda()
import test_cuda_recordings as test
program = test.compiled(json.loads(sys.argv[1]))
report = fake.report()
print(json.dumps([test.runs(report), report["counts"], report["violations"]]))
"""


@dataclasses.dataclass(frozen=True)
class Search:
    """The plans that the engine has found for a convolution.

    Attributes:
      key: the key of the convolution's graph.
      times: the simulated times of all plans that ran while the program was created.
      used: the plan that the program uses.
      version: the version of the fake cuDNN for which the plan was found.
    """

    key: str
    times: dict[str, float]
    used: str
    version: int


def sample(network: str, dtype: str) -> list[tuple[int, dict]]:
    """A sample of a network's convolutions, each with its index in the network."""
    blocks = list(enumerate(real_cudnn.blocks(network, dtype, 1)))
    return random.Random(f"{network} {dtype}").sample(blocks, _SAMPLE)


def weights_of(block: dict) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    _, shape, _ = real_cudnn.tensors(block)
    kernel = rng.normal(size=shape) / math.sqrt(math.prod(shape[:-1]))
    (operator,) = block["operators"]
    biases = [rng.normal(size=shape[-1])] * bool(operator.get("bias"))
    return [array.astype(np.float32) for array in (kernel, *biases)]


def inputs_of(block: dict) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape).astype(np.float32) for shape in block["inputs"]]


def compiled(block: dict, device: str = "gpu") -> engine.Program:
    return engine.Program(block, _SCHEDULE, weights_of(block), device)


def multiplications(block: dict) -> int:
    _, w, y = real_cudnn.tensors(block)
    return math.prod(w) * math.prod(y[:-1])


def runs(report: dict) -> dict[str, int]:
    """How often each plan ran."""
    counts = report["counts"].items()
    return {k.removeprefix(_RUNS): n for k, n in counts if k.startswith(_RUNS)}


_versions = itertools.count(100_000)


def search(gpu, block: dict, device: str = "gpu") -> Search:
    """Searches for a plan with a new version of cuDNN, without computing anything.

    The engine has no plans of this version yet, so it times all of them.
    """
    version = next(_versions)
    gpu.fake.reset()
    gpu.fake.set(inert=1, cudnn_version=version)
    program = compiled(block, device)
    report = gpu.fake.report()
    counts = report["counts"]
    (key,) = (k.removeprefix(_RECORDED) for k in counts if k.startswith(_RECORDED))
    assert counts[_RECORDED + key] == counts["cudnn heuristics"] == 3
    times = {plan: counts[_NANOSECONDS + plan] / n for plan, n in runs(report).items()}
    gpu.fake.library.fake_cuda_reset()
    run = cuda_engine.DeviceRun(gpu, program, inputs_of(block), block["dtype"])
    run()
    (used,) = runs(gpu.fake.report())
    run.close()
    return Search(key, times, used, version)


def assert_computes(gpu, block: dict, found: Search, tensor_cores: bool) -> None:
    dtype = block["dtype"]
    gpu.fake.reset()
    gpu.fake.set(cudnn_version=found.version)  # the engine remembers the plan
    inputs = inputs_of(block)
    run = cuda_engine.DeviceRun(gpu, compiled(block), inputs, dtype)
    actual = run()
    run.close()
    assert set(runs(gpu.fake.report())) == {found.used}
    expected = cuda_engine.on_cpu(block, _SCHEDULE, weights_of(block), inputs, dtype)
    cuda_engine.assert_close(actual, expected, _TOLERANCE[dtype])
    if dtype == "float32" and tensor_cores:
        with pytest.raises(AssertionError):
            cuda_engine.assert_close(actual, expected, _EXACT)


@pytest.mark.parametrize("kind", ["tf32", "exact", "half"])
def test_convolutions_are_those_the_engine_asks_for(kind):
    """The recorded convolutions are those of the present engine.

    If this fails, the engine now merges or pads the network's convolutions differently.
    """
    texts = make_gpu_data.of_network(Network.read(gpu_data.NETWORKS[-1]), kind)
    found = [make_gpu_data.convolution(text) for text in sorted(texts)]
    recorded = json.loads(Path(gpu_data.CONVOLUTIONS).read_text())
    assert recorded["squeezenet"][kind] == [one for one in found if "rest" not in one]


@pytest.mark.parametrize(("network", "dtype", "batch"), record.ENGINES[_DEVICE])
def test_the_fastest_that_the_real_cudnn_has(gpu, monkeypatch, network, dtype, batch):
    monkeypatch.setenv(_VARIABLE, str(record.engines_path(_DEVICE)))
    version, engines = record.read_engines(_DEVICE)
    summaries = record.read(_DEVICE)
    assert version == summaries["cudnn"]
    chosen = sample(network, dtype)
    computed = sorted((multiplications(block), i) for i, block in chosen)[:_COMPUTED]
    for i, block in chosen:
        found = search(gpu, block)
        plans = {plan.name: plan for plan in engines[found.key]}
        assert set(found.times) <= set(plans)
        # The recording lists the plans in the order in which they were built.
        timed = [
            dataclasses.replace(plan, timed=True)
            for plan in plans.values()
            if plan.name in found.times
        ]
        wanted = summaries["answers"][f"{network} {dtype} {batch}"][i]
        assert record.summary(Answer("", timed, [], 0)) == wanted, block
        assert found.used == min(found.times, key=lambda name: found.times[name]), block
        if i in {which for _, which in computed}:
            assert_computes(gpu, block, found, plans[found.used].tensor_cores)


def test_without_tf32_what_has_no_tensor_cores(gpu, monkeypatch):
    """Without TF32, the engine times exactly the plans whose notes exclude tensor
    cores."""
    monkeypatch.setenv(_VARIABLE, str(record.engines_path(_DEVICE)))
    _, engines = record.read_engines(_DEVICE)
    for _, block in sample("inception_v3", "float32"):
        found = search(gpu, block, cuda_engine.DEVICE)
        plans = engines[found.key]
        exact = {plan.name for plan in plans if not plan.tensor_cores}
        assert 0 < len(exact) < len(plans)
        assert set(found.times) == exact


def test_the_frontend_has_room_for_all_notes():
    """No engine has more notes than the arrays of cuDNN's frontend have elements.

    The frontend does not check the number of notes that cuDNN returns.
    """
    most = [
        descriptors.constant(f"{kind}_NOTE_TYPE_COUNT")
        for kind in ("NUMERICAL", "BEHAVIOR")
    ]
    for device in record.ENGINES:
        lines = record.engines_path(device).read_text().splitlines()
        engines = [line.split() for line in lines if line.startswith("engine ")]
        assert engines
        for _, name, *notes, _, _ in engines:
            for text, length in zip(notes, most, strict=True):
                assert len(text.split(",")) <= length, name


def _not_supported(workspace: int) -> tuple[int, int]:
    return workspace, 3000  # CUDNN_STATUS_NOT_SUPPORTED


def _too_much_workspace(workspace: int) -> tuple[int, int]:
    return (64 << 20) + 1, 0


@pytest.mark.parametrize("change", [_not_supported, _too_much_workspace])
def test_the_second_where_the_fastest_cannot_be_used(
    gpu, monkeypatch, tmp_path, change: Callable[[int], tuple[int, int]]
):
    path = record.engines_path(_DEVICE)
    monkeypatch.setenv(_VARIABLE, str(path))
    (_, block), *_ = sample("inception_v3", "float16")
    before = search(gpu, block)
    assert len(before.times) > 10
    changed = tmp_path / f"{change.__name__}.txt"
    lines = path.read_text().splitlines()
    begin = lines.index(f"graph {before.key}")
    at = next(n for n in range(begin, len(lines)) if f" {before.used} " in lines[n])
    *words, workspace, _ = lines[at].split()
    lines[at] = " ".join([*words, *map(str, change(int(workspace)))])
    changed.write_text("\n".join(lines) + "\n")
    monkeypatch.setenv(_VARIABLE, str(changed))
    after = search(gpu, block)
    assert set(after.times) == set(before.times) - {before.used}
    assert after.used == sorted(before.times, key=lambda name: before.times[name])[1]


def test_plans_that_are_kept_are_loaded(tmp_path):
    cuda_helpers.build_fakes()
    (_, block), *_ = sample("inception_v3", "float16")

    def plans(recording: Path) -> tuple[set[str], dict]:
        ran, counts, _ = cuda_helpers.run_apart(
            _PLANS_OF,
            json.dumps(block),
            IOS_TF_PLAN_CACHE=str(tmp_path / "plans"),
            IOS_TF_CODE_CACHE=str(tmp_path / "code"),
            FAKE_CUDA_OPTIONS="inert=1",
            FAKE_CUDNN_RECORDINGS=str(recording),
        )
        return set(ran), counts

    first, _ = plans(record.engines_path(_DEVICE))
    assert len(first) > 10
    second, counts = plans(record.engines_path(_DEVICE))
    assert len(second) == 1 and second < first
    assert counts["cudnn plans loaded"] == 1
    assert "cudnn heuristics" not in counts
    # With a cuDNN that lacks the stored plan's engine, the engine times other plans.
    other = tmp_path / "empty.txt"
    other.write_text("")
    third, counts = plans(other)
    assert first.isdisjoint(third) and len(third) > 1
    assert "cudnn plans loaded" not in counts
