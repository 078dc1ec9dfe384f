"""The paper's four networks, with few channels, under all strategies on the fake GPU.
The results must equal those of the CPU backend, and all accesses must be ordered.

tests/support/make_network_data.py generated the blocks.
"""

import functools
import json

import cuda_engine
import numpy as np
import pytest
import scheduler_helpers
from random_blocks import components
from threads import in_threads

from benchmarks.network import Network
from benchmarks.simulated_gpu import Arithmetic, SimulatedCostModel, SimulatedDevice
from ios_tf.native import engine
from ios_tf.scheduler import (
    STRATEGIES,
    Problem,
    Pruning,
    Schedule,
    SearchOptions,
    search,
)

pytestmark = pytest.mark.one_core

NETWORKS = ["inception", "squeezenet", "randwire", "nasnet"]
# A device that is slow enough for concurrency to pay even in these small networks.
_ARITHMETIC = Arithmetic(1e8, ((16, 16), (8, 8)), depth=8, element_bytes=4)
DEVICE = SimulatedDevice(
    _ARITHMETIC,
    _ARITHMETIC,
    bytes_per_ms=1e7,
    cache_bytes_per_ms=1e8,
    multiprocessors=8,
    launch_ms=1e-3,
    stage_ms=1e-3,
)
# Tolerances relative to the largest value; rounding errors of all layers add up.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}


@functools.cache
def network(name: str) -> Network:
    found = Network.read(scheduler_helpers.DATA / f"{name}.json")
    assert len(found.regions) == 1
    return found


def weights_of(block: dict, rng: np.random.Generator, gain: float) -> list[np.ndarray]:
    """Random weights with the shapes of WeightShapes (cc/core/ops/operator.h)."""
    shapes = engine.problem(block)["shapes"]
    weights = []

    def add(*shape: int) -> None:
        fan_in = np.prod(shape[:-1])
        values = rng.normal(size=shape) * (gain / fan_in) ** 0.5
        weights.append(values.astype(np.float32))

    for op in block["operators"]:
        ref = op["inputs"][0]
        channels = (block["inputs"][-1 - ref] if ref < 0 else shapes[ref])[-1]
        kernel = op.get("kernel", [1, 1])
        if op["type"] == "conv2d":
            add(*kernel, channels, op["filters"])
        elif op["type"] == "sepconv":
            middle = channels * op.get("multiplier", 1)
            add(*kernel, 1, middle)
            add(1, 1, middle, op["filters"])
        elif op["type"] == "matmul":
            add(channels, op["filters"])
        elif op["type"] == "scale":
            weights.append(rng.uniform(0.5, 1, channels).astype(np.float32))
            weights.append(rng.normal(size=channels).astype(np.float32))
        if op.get("bias"):
            weights.append(rng.normal(size=op["filters"]).astype(np.float32) / 4)
    return weights


@functools.cache
def case(name: str, dtype: str):
    """A network's block, weights and inputs, and the CPU's outputs."""
    rng = np.random.default_rng(0)
    block = network(name).regions[0].block
    # With this gain, values keep their magnitude from layer to layer.
    weights = weights_of(block, rng, 2 if name == "inception" else 1)
    inputs = [rng.normal(size=s).astype(np.float32) for s in block["inputs"]]
    schedule = schedule_of(name, "sequential", 0)
    expected = cuda_engine.on_cpu(block, schedule, weights, inputs, dtype)
    assert 1e-2 < np.abs(expected[0]).max() < 1e4
    return block, weights, inputs, expected


def schedule_of(name: str, strategy: str, seed: int) -> dict:
    """A schedule from a search on a simulated device.

    It is random if the search would take too long.
    """
    if name in ("randwire", "nasnet") and strategy not in ("sequential", "greedy"):
        problem = engine.problem(network(name).regions[0].block)
        if strategy == "parallel":
            problem["merge_classes"] = []
        most = 1 if strategy == "merge" else 8
        return _random_schedule(np.random.default_rng(seed), problem, most)
    found = {
        signature: _searched(name, signature, strategy)
        for signature in network(name).problems
    }
    return json.loads(network(name).regions[0].schedule(found).to_json())


@functools.cache
def _searched(name: str, signature: str, strategy: str) -> Schedule:
    problem: Problem = network(name).problems[signature]
    return search(
        problem, SimulatedCostModel(DEVICE), SearchOptions(strategy, Pruning(2, 4))
    ).schedule


def _random_schedule(rng: np.random.Generator, problem: dict, most: int) -> dict:
    """A random schedule: merges where possible, otherwise stages of up to `most`."""
    operators = problem["block"]["operators"]
    stages, done = [], set()

    def ready(op: int, inside: set[int]) -> bool:
        return all(r < 0 or r in inside for r in operators[op]["inputs"])

    while len(done) < len(operators):
        left = [i for i in range(len(operators)) if i not in done]
        merge = max(
            (
                [i for i in c if i in left and ready(i, done)]
                for c in problem["merge_classes"]
            ),
            key=len,
            default=[],
        )
        if len(merge) > 1:
            chosen = merge
            stages.append({"strategy": "merge", "groups": [merge]})
        else:
            chosen = []
            for i in left:  # `left` is in a topological order
                if (
                    len(chosen) < most
                    and ready(i, done | {*chosen})
                    and (not chosen or rng.integers(3))
                ):
                    chosen.append(i)
            groups = components(operators, chosen)
            stages.append({"strategy": "concurrent", "groups": groups})
        done |= {*chosen}
    return {"version": 1, "stages": stages}


def test_strategies_differ():
    """The schedules for the tests below have concurrent groups, chains and merges."""
    for name in NETWORKS:
        schedules = {s: schedule_of(name, s, 0)["stages"] for s in STRATEGIES}
        assert len(schedules["auto"]) < len(schedules["sequential"])
        for strategy in ("auto", "parallel", "greedy"):
            assert any(len(stage["groups"]) > 1 for stage in schedules[strategy])
        assert any(
            len(group) > 1
            for stage in schedules["parallel"]
            for group in stage["groups"]
        )
        if name != "randwire":  # RandWire has nothing to merge
            for strategy in ("auto", "merge"):
                assert any(s["strategy"] == "merge" for s in schedules[strategy])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(gpu, name, strategy):
    block, weights, inputs, expected = case(name, "float32")
    for seed in range(2 if strategy in ("auto", "parallel") else 1):
        gpu.fake.set(seed=seed)
        schedule = schedule_of(name, strategy, seed)
        program = engine.Program(block, schedule, weights, cuda_engine.DEVICE)
        run = cuda_engine.DeviceRun(gpu, program, inputs, "float32")
        for _ in range(4):  # the first is eager, the second captures, others replay
            cuda_engine.assert_close(run(), expected, TOLERANCE["float32"])
        run.close()


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, "float16") for name in NETWORKS), ("inception", "bfloat16")],
)
def test_network_in_half_precision(gpu, name, dtype):
    block, weights, inputs, expected = case(name, dtype)
    program = engine.Program(
        {**block, "dtype": dtype}, schedule_of(name, "auto", 3), weights, "gpu"
    )
    run = cuda_engine.DeviceRun(gpu, program, inputs, dtype)
    for _ in range(3):
        cuda_engine.assert_close(run(), expected, TOLERANCE[dtype])
    run.close()


@pytest.mark.parametrize("name", ["squeezenet", "inception"])
def test_threads_run_one_network_at_once(gpu, name):
    block, weights, inputs, expected = case(name, "float32")
    program = engine.Program(
        block, schedule_of(name, "auto", 0), weights, cuda_engine.DEVICE
    )

    def call(_: int) -> None:
        with gpu.context():
            run = cuda_engine.DeviceRun(gpu, program, inputs, "float32")
            for _ in range(4):
                cuda_engine.assert_close(run(), expected, TOLERANCE["float32"])
            run.close()

    in_threads(call, range(3))


def test_events_removed_from_a_network_are_found(gpu):
    """Leaving out a wait inside a stage of SqueezeNet is found in nearly all cases."""
    block, weights, inputs, expected = case("squeezenet", "float32")
    schedule = schedule_of("squeezenet", "greedy", 0)
    program = engine.Program(block, schedule, weights, cuda_engine.DEVICE)
    gpu.fake.set(fail_begin_capture=1)
    run = cuda_engine.DeviceRun(gpu, program, inputs, "float32")
    run(), run()
    waits = sum(
        2 * (len(stage["groups"]) - 1)
        for stage in schedule["stages"]
        if stage["strategy"] == "concurrent"
    )
    assert waits > 20
    found = 0
    for n in range(1, waits + 1):  # wait 0, for the last run, is not needed
        gpu.fake.plant("drop_event", n)
        run.set_inputs(inputs)
        results = run()
        gpu("cuCtxSynchronize")
        assert gpu.fake.report()["counts"].get("planted drop_event") == 1
        if gpu.fake.take_violations():
            found += 1
        else:  # the lane only reads its own results, so no wait was needed
            cuda_engine.assert_close(results, expected, TOLERANCE["float32"])
    assert found >= 0.9 * waits
    run.close()
