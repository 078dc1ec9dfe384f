"""NVIDIA's own cuDNN is asked about convolutions of the four networks, for devices that
are not there: of all that record.py asks about, a sample that is the same each time.

What the engine would time is what it runs (proxy.cc): which of these is fastest, only a
GPU can say. Asserted is that none of them can hurt, and that a good one is among them:

* with tensor cores, but for float32 without TF32;
* none takes more workspace than the engine allows, as every lane has to have it, and
  what would is built, but never runs;
* tensor cores' plans for half precision pad no channels where there are as many as
  these take: what the engine pads when it compiles, cuDNN does not pad on every call.
  Plans for TF32 may copy: on an H200 one that does not is there, on others all
  transpose;
* what is ready copies tensors with a pitch, what is compiled does not.
"""

import dataclasses
import math
import random

import descriptors
import pytest
import real_cudnn
import record

pytestmark = pytest.mark.one_core

_SAMPLE = 12
# Those of the engine (plan_search.cc).
_SMALL_WORKSPACE = 64 << 20
_WORKSPACE_TENSORS = 2


@pytest.fixture(scope="module")
def library():
    found = real_cudnn.find()
    if found is None:
        pytest.skip(real_cudnn.MISSING)
    return found


def some(seed: str) -> list[tuple[str, int, dict]]:
    """Convolutions of all networks: which of its network, as a block."""
    every = [
        (network, i, block)
        for network in real_cudnn.networks()
        for i, block in enumerate(real_cudnn.convolutions(network))
    ]
    return random.Random(seed).sample(every, _SAMPLE)


def workspace_allowed(block: dict, dtype: str) -> int:
    elements = sum(math.prod(shape) for shape in real_cudnn.tensors(block))
    size = elements * real_cudnn.element_bytes(dtype)
    return max(_SMALL_WORKSPACE, _WORKSPACE_TENSORS * size)


@pytest.mark.parametrize(
    ("device", "dtype", "batch"),
    [(name, *case) for name, cases in record.CASES.items() for case in cases],
)
def test_what_would_be_timed(library, device, dtype, batch):
    chosen = some(f"{device} {dtype} {batch}")
    blocks = [real_cudnn.with_batch(block, batch, dtype) for _, _, block in chosen]
    version, answers = real_cudnn.answers(library, blocks, device)
    recorded = record.read(device)
    for (network, i, _), block, answer in zip(chosen, blocks, answers, strict=True):
        assert answer.error == ""
        allowed = workspace_allowed(block, dtype)
        for plan in answer.plans:
            assert plan.timed == (plan.workspace <= allowed), (block, plan)
        with_cores = [plan for plan in answer.timed if plan.tensor_cores]
        if dtype == "exact":
            assert with_cores == []  # on float32 they compute in TF32
            assert answer.timed
        else:
            assert with_cores, block
            assert_no_copies(block, with_cores, device, dtype)
        if version == recorded["cudnn"]:
            wanted = recorded["answers"][f"{network} {dtype} {batch}"][i]
            assert record.summary(answer) == wanted, block
            if (network, dtype, batch) in record.ENGINES.get(device, []):
                assert_recorded(answer, device)


def assert_recorded(answer, device: str) -> None:
    """As the fake cuDNN has it."""
    _, engines = record.read_engines(device)
    for graph in answer.graphs:
        plans = [*graph.plans, *graph.failed]
        untimed = [dataclasses.replace(plan, timed=False) for plan in plans]
        assert untimed == engines[graph.key]


def assert_no_copies(block: dict, plans: list, device: str, dtype: str) -> None:
    x, w, y = real_cudnn.tensors(block)
    odd = any(n % real_cudnn.multiple(dtype) for n in (x[-1], y[-1]))
    padding = [plan for plan in plans if real_cudnn.pads(plan, x, w, y)]
    if dtype != "float32":
        assert bool(padding) == odd, (block, padding)
    if not odd and (dtype != "float32" or device == "h200"):
        assert min(plan.workspace for plan in plans) < 1024, block


def test_more_workspace_than_is_allowed_is_never_used(library):
    """Whatever a version of cuDNN asks for: its workspaces are made a thousand times
    as large."""
    operator = {"type": "conv2d", "filters": 672, "bias": True, "inputs": [-1]}
    block = {
        "version": 1,
        "dtype": "float32",
        "inputs": [[32, 11, 11, 2688]],
        "operators": [operator],
        "outputs": [0],
    }
    _, (answer,) = real_cudnn.answers(library, [block], workspaces=1000)
    allowed = workspace_allowed(block, "float32")
    assert any(plan.workspace > allowed for plan in answer.plans)
    assert answer.timed
    assert all(plan.workspace <= allowed for plan in answer.timed)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_only_what_is_compiled_takes_a_pitch(library, dtype):
    """As where convolutions write into a concat."""
    conv = {"type": "conv2d", "filters": 64, "bias": True, "activation": "relu"}
    block = {
        "version": 1,
        "dtype": dtype,
        "inputs": [[1, 35, 35, 192]],
        "operators": [{**conv, "inputs": [-1]}, {"type": "concat", "inputs": [0, -1]}],
        "outputs": [1],
    }
    _, (answer,) = real_cudnn.answers(library, [block])
    assert answer.error == ""
    output = 35 * 35 * 64 * real_cudnn.element_bytes(dtype)
    with_cores = [plan for plan in answer.timed if plan.tensor_cores]
    ready = [plan.workspace for plan in with_cores if not plan.compiles]
    assert ready and min(ready) >= output
    compiled = [plan.workspace for plan in with_cores if plan.compiles]
    assert len(compiled) > 3 and max(compiled) == 0


def test_plans_are_loaded_without_heuristics(library, tmp_path):
    chosen = [
        real_cudnn.with_batch(block, 1, "float16") for *_, block in some("loaded")
    ]
    _, first = real_cudnn.answers(library, chosen, caches=tmp_path)
    assert all(answer.proposed and answer.plans for answer in first)
    assert sum(answer.loaded for answer in first) == 0
    _, second = real_cudnn.answers(library, chosen, caches=tmp_path)
    for answer in second:
        assert answer.error == ""
        assert answer.loaded >= 1
        # Where cuDNN proposes nothing, it is asked again.
        assert not answer.proposed and not answer.plans


def test_recordings_are_of_all_convolutions():
    for device, cases in record.CASES.items():
        answers = record.read(device)["answers"]
        for network in real_cudnn.networks():
            count = len(real_cudnn.convolutions(network))
            for dtype, batch in cases:
                recorded = answers[f"{network} {dtype} {batch}"]
                assert len(recorded) == count
                assert not any("error" in answer for answer in recorded)
                # TF32 and half precision are for tensor cores, exact float32 is not.
                for answer in recorded:
                    assert (answer["tensor_cores"] > 0) == (dtype != "exact")
    for device, cases in record.ENGINES.items():
        counts = [len(real_cudnn.convolutions(network)) for network, _, _ in cases]
        version, engines = record.read_engines(device)
        assert len(engines) == sum(counts)  # each is another graph
        assert version == record.read(device)["cudnn"]


def test_what_is_refused_is_required(library):
    """No descriptor that the real cuDNN refuses is taken by the fake, which wants all
    that the reference does: cuDNN 9.28 has defaults for types, paddings and factors,
    and proposes nothing where modes or numbers of tensors are missing."""
    found = real_cudnn.statuses(library)
    assert set(found.pop("").values()) == {descriptors.SUCCESS}
    refused = {
        name
        for name, statuses in found.items()
        if list(statuses.values())[-1] in descriptors.BAD_PARAMETER
    }
    assert refused <= descriptors.REQUIRED
    assert {
        "CONVOLUTION_SPATIAL_DIMS",
        "CONVOLUTION_DILATIONS",
        "ENGINEHEUR_OPERATION_GRAPH",
        "OPERATIONGRAPH_OPS",
        "OPERATION_CONVOLUTION_FORWARD_X",
        "POINTWISE_MODE",
        "TENSOR_STRIDES",
        "VARIANT_PACK_UNIQUE_IDS",
    } <= refused
