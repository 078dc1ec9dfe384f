"""Asks NVIDIA's own cuDNN about convolutions of the four networks, for devices that
this machine does not have. The convolutions are a fixed sample of those in record.py.

The engine runs the plans that it would time (see proxy.cc). Only a GPU can show which
of these is the fastest. The tests assert that none of the plans is harmful, and that a
good plan is among them:

* Some plans use tensor cores, except for float32 without TF32.
* No plan that runs needs more workspace than the engine allows, because each lane needs
  this memory. A plan that needs more is built, but never runs.
* If tensor cores support the numbers of channels, a plan with tensor cores copies
  nothing. The engine pads channels when it compiles, so cuDNN need not pad in every
  call. In TF32, this is only true on an H200; on other devices, all such plans
  transpose.
* Plans that need no compilation copy tensors with a pitch. Compiled plans do not.
"""

import collections
import dataclasses
import math
import random

import descriptors
import pytest
import real_cudnn
import record

from benchmarks import gpu_data

pytestmark = pytest.mark.one_core

_SAMPLE = 12
# The engine's constants in plan_search.cc.
_SMALL_WORKSPACE = 64 << 20
_WORKSPACE_TENSORS = 2


@pytest.fixture(scope="module")
def library():
    found = real_cudnn.find()
    if found is None:
        pytest.skip(real_cudnn.MISSING)
    return found


def some(device: str, dtype: str, batch: int) -> list[tuple[str, int, dict]]:
    """A sample of a device's recorded convolutions: network, index in it, and block."""
    every = [
        (case[0], i, block)
        for case in record.cases(device)
        if case[0] != gpu_data.IN_CONCATS and case[1:] == (dtype, batch)
        for i, block in enumerate(real_cudnn.blocks(*case))
    ]
    return random.Random(f"{device} {dtype} {batch}").sample(every, _SAMPLE)


def workspace_allowed(block: dict, dtype: str) -> int:
    elements = sum(math.prod(shape) for shape in real_cudnn.tensors(block))
    size = elements * real_cudnn.element_bytes(dtype)
    return max(_SMALL_WORKSPACE, _WORKSPACE_TENSORS * size)


@pytest.mark.parametrize(
    ("device", "dtype", "batch"),
    sorted(
        {(name, *case[1:]) for name in record.DEVICES for case in record.cases(name)}
    ),
)
def test_what_would_be_timed(library, device, dtype, batch):
    chosen = some(device, dtype, batch)
    blocks = [block for _, _, block in chosen]
    version, answers = real_cudnn.answers(library, blocks, device)
    recorded = record.read(device)
    for (network, i, _), block, answer in zip(chosen, blocks, answers, strict=True):
        assert answer.error == ""
        allowed = workspace_allowed(block, dtype)
        for plan in answer.plans:
            assert plan.timed == (plan.workspace <= allowed), (block, plan)
        with_cores = [plan for plan in answer.timed if plan.tensor_cores]
        if dtype == "exact":
            assert with_cores == []  # tensor cores compute float32 in TF32
            assert answer.timed
        elif record.for_tensor_cores(block, dtype):
            assert with_cores, block
            assert_no_copies(block, with_cores, device, dtype)
        if version == recorded["cudnn"]:
            wanted = recorded["answers"][f"{network} {dtype} {batch}"][i]
            assert record.summary(answer) == wanted, block
            if (network, dtype, batch) in record.ENGINES.get(device, []):
                assert_recorded(answer, device)


def test_networks_have_plans_that_are_ready():
    """Most plans of networks need no compilation, which takes a third of a second each.

    For an activation or a residual without a bias, cuDNN has only compiled plans. The
    exceptions write into a concat, have 3 groups, or read an image with 3 channels.
    """
    few: collections.Counter[tuple[str, str]] = collections.Counter()
    for device in record.DEVICES:
        for key, answers in record.read(device)["answers"].items():
            if key.split()[1] == "exact":
                continue
            for answer in answers:
                counts = [int(one.split("*")[1]) for one in answer["timed"].split()]
                few[device, key] += sum(counts) - answer["compiled"] < 8
    assert +few == {
        ("h200", f"{gpu_data.IN_CONCATS} float16 1"): 2,
        ("h200", "zoo float16 1"): 1,
        ("h200", "zoo bfloat16 1"): 1,
        ("l4", "randwire float32 1"): 1,
        ("l4", "randwire float32 32"): 1,
    }


def assert_recorded(answer, device: str) -> None:
    """Asserts that the answer equals the recording that the fake cuDNN uses."""
    _, engines = record.read_engines(device)
    for graph in answer.graphs:
        plans = [*graph.plans, *graph.failed]
        untimed = [dataclasses.replace(plan, timed=False) for plan in plans]
        assert untimed == engines[graph.key]


def assert_no_copies(block: dict, plans: list, device: str, dtype: str) -> None:
    """Asserts that a plan copies nothing, in half precision and on an H200."""
    x, _, y = real_cudnn.tensors(block)
    if any(n % real_cudnn.multiple(dtype) for n in (x[-1], y[-1])):
        return  # such tensors are rare: see test_few_tensors_have_odd_channels
    dilated = max(block["operators"][0].get("dilations", [1])) > 1
    if dtype != "float32" or (device == "h200" and not dilated):
        assert min(plan.workspace for plan in plans) < 1024, block


@pytest.mark.parametrize(("channels", "pads"), [(154, True), (160, False)])
def test_odd_channels_are_padded_on_every_call(library, channels, pads):
    conv = {"type": "conv2d", "kernel": [3, 3], "filters": channels, "padding": "SAME"}
    block = {
        "version": 1,
        "dtype": "float16",
        "inputs": [[1, 28, 28, channels]],
        "operators": [{**conv, "bias": True, "inputs": [-1]}],
        "outputs": [0],
    }
    _, (answer,) = real_cudnn.answers(library, [block])
    with_cores = [plan for plan in answer.timed if plan.tensor_cores]
    sizes = real_cudnn.tensors(block)
    assert any(real_cudnn.pads(plan, *sizes) for plan in with_cores) == pads


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_few_tensors_have_odd_channels(dtype):
    """The engine pads nearly all numbers of channels for tensor cores.

    It does not pad the 3 channels of images. In NASNet, it also does not pad the two
    halves of a reduction, because a concat needs them without padding.
    """
    odd = collections.Counter()
    for network in real_cudnn.networks():
        for block in real_cudnn.blocks(network, dtype, 1):
            x, _, y = real_cudnn.tensors(block)
            multiple = real_cudnn.multiple(dtype)
            odd[network] += x[-1] > 3 and any(n % multiple for n in (x[-1], y[-1]))
    networks = {"inception_v3", "nasnet_a_large", "randwire", "squeezenet"}
    found = {name: odd[name] for name in networks if odd[name]}
    assert found == ({"nasnet_a_large": 1} if dtype == "float16" else {})


def test_more_workspace_than_is_allowed_is_never_used(library):
    """Plans that need too much workspace never run, whatever cuDNN asks for.

    The proxy multiplies all workspaces by a thousand.
    """
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
    """A convolution that writes into a concat has an output with a pitch."""
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
    chosen = [block for *_, block in some("a100", "float16", 1)]
    _, first = real_cudnn.answers(library, chosen, caches=tmp_path)
    assert all(answer.proposed and answer.plans for answer in first)
    assert sum(answer.loaded for answer in first) == 0
    _, second = real_cudnn.answers(library, chosen, caches=tmp_path)
    for answer in second:
        assert answer.error == ""
        assert answer.loaded >= 1
        # The plans were loaded, so the heuristics were not asked.
        assert not answer.proposed and not answer.plans


def test_recordings_are_of_all_convolutions():
    for device in record.DEVICES:
        recording = record.read(device)
        names = [" ".join(map(str, case)) for case in record.cases(device)]
        assert set(recording["answers"]) == set(names)
        for case, name in zip(record.cases(device), names, strict=True):
            _, dtype, _ = case
            recorded = recording["answers"][name]
            blocks = real_cudnn.blocks(*case)
            assert len(recorded) == len(blocks)
            assert not any("error" in answer for answer in recorded)
            for answer, block in zip(recorded, blocks, strict=True):
                wanted = record.for_tensor_cores(block, dtype)
                assert (answer["tensor_cores"] > 0) == wanted, block
    for device, cases in record.ENGINES.items():
        counts = [len(real_cudnn.blocks(*case)) for case in cases]
        version, engines = record.read_engines(device)
        assert len(engines) == sum(counts)  # all graphs are different
        assert version == record.read(device)["cudnn"]


def test_what_is_refused_is_required(library):
    """The fake cuDNN refuses all descriptors that the real cuDNN refuses.

    The fake requires all attributes that the reference requires. cuDNN 9.28 requires
    fewer: it has defaults for types, paddings and factors, and it accepts descriptors
    without modes or numbers of tensors, but proposes nothing for them.
    """
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
