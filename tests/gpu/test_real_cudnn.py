"""NVIDIA's own cuDNN is asked about the convolutions of the four networks, for devices
that are not there: each has plans that use tensor cores, in little memory, without
copies.

Of all convolutions that record.py asks about some are asked about here.
"""

import pytest
import real_cudnn
import record

pytestmark = pytest.mark.one_core

_EVERY = 8


@pytest.fixture(scope="module")
def library():
    found = real_cudnn.find()
    if found is None:
        pytest.skip(real_cudnn.MISSING)
    return found


def some(offset: int) -> list[tuple[str, int, dict]]:
    """Convolutions of all networks: which of its network, as a block."""
    every = [
        (network, i, block)
        for network in real_cudnn.networks()
        for i, block in enumerate(real_cudnn.convolutions(network))
    ]
    return every[offset::_EVERY]


def is_padded(block: dict, dtype: str) -> bool:
    """Whether tensor cores take other numbers of channels than the convolution has."""
    (operator,) = block["operators"]
    multiple = 4 if dtype == "float32" else 8
    return any(n % multiple for n in (block["inputs"][0][-1], operator["filters"]))


@pytest.mark.parametrize("dtype", real_cudnn.DTYPES)
def test_convolutions_have_fast_plans(library, dtype):
    chosen = some(2 * real_cudnn.DTYPES.index(dtype))
    blocks = [real_cudnn.with_batch(block, 1, dtype) for _, _, block in chosen]
    version, answers = real_cudnn.answers(library, blocks)
    recorded = record.read("h200")
    for (network, i, _), block, answer in zip(chosen, blocks, answers, strict=True):
        assert answer.error == ""
        with_cores = [plan for plan in answer.plans if plan.tensor_cores]
        if dtype == "exact":
            assert with_cores == []  # on float32 they compute in TF32
            assert answer.plans
        else:
            assert with_cores, block
            if not is_padded(block, dtype):
                assert min(plan.workspace for plan in with_cores) < 1024, block
        if version == recorded["cudnn"]:
            wanted = recorded["answers"][f"{network} {dtype} 1"][i]
            assert record.summary(answer) == wanted, block


def test_what_is_ready_copies_tensors_with_a_pitch(library):
    """As where convolutions write into a concat: so the engine has those compiled that
    do not. (cuDNN proposes them only where all of a driver is there.)"""
    conv = {"type": "conv2d", "filters": 64, "bias": True, "activation": "relu"}
    block = {
        "version": 1,
        "dtype": "float16",
        "inputs": [[1, 35, 35, 192]],
        "operators": [
            {**conv, "inputs": [-1]},
            {**conv, "inputs": [-1], "kernel": [3, 3], "padding": "SAME"},
            {"type": "concat", "inputs": [0, 1]},
        ],
        "outputs": [2],
    }
    _, (answer,) = real_cudnn.answers(library, [block])
    assert answer.error == ""
    output = 35 * 35 * 64 * 2
    fast = [p.workspace for p in answer.plans if p.tensor_cores and not p.compiles]
    assert fast and min(fast) >= output


def test_plans_are_loaded_without_heuristics(library, tmp_path):
    chosen = [real_cudnn.with_batch(block, 1, "float16") for *_, block in some(1)]
    _, first = real_cudnn.answers(library, chosen, caches=tmp_path)
    assert all(answer.proposed and answer.plans for answer in first)
    assert sum(answer.loaded for answer in first) == 0
    _, second = real_cudnn.answers(library, chosen, caches=tmp_path)
    for answer in second:
        assert answer.error == ""
        assert answer.loaded >= 1
        # Where cuDNN proposes nothing, it is asked again.
        assert not any(answer.proposed.values()) and not answer.plans


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
