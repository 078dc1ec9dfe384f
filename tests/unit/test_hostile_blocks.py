"""Hostile blocks, schedules and programs: each is refused at once with an error of one
line, and the engine keeps working."""

import json
import os
import time

import numpy as np
import pytest
from commands import run_python
from threads import in_threads

from ios_tf.native import engine
from ios_tf.native.engine import EngineError

HUGE = [2**30 + 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), -1, -(2**31)]


def block(*operators: dict, inputs: list | None = None, **others) -> dict:
    return {
        "version": 1,
        "name": "hostile",
        "dtype": "float32",
        "inputs": [[1, 8, 8, 4]] if inputs is None else inputs,
        "operators": list(operators),
        "outputs": [len(operators) - 1],
        **others,
    }


def conv(**others) -> dict:
    return {"type": "conv2d", "inputs": [-1], "filters": 4, "padding": "SAME", **others}


def sequential(found: dict) -> dict:
    groups = [[[i]] for i in range(len(found["operators"]))]
    stages = [{"strategy": "concurrent", "groups": g} for g in groups]
    return {"version": 1, "stages": stages}


def try_all(found: dict) -> list[str]:
    """The error that each entry point of the engine gives for a block; "" if none."""
    errors = []
    for entry in (
        lambda: engine.problem(found),
        lambda: engine.Program(found, sequential(found), []),
        lambda: engine.Profiler(found).sample([sequential(found)], 0, 1, 1),
    ):
        try:
            entry()
            errors.append("")
        except EngineError as error:
            errors.append(str(error))
    return errors


def refused(found: dict) -> str:
    errors = try_all(found)
    assert all(errors), errors
    assert all("\n" not in error and len(error) < 500 for error in errors)
    return errors[0]


def still_works() -> None:
    good = block({"type": "activation", "inputs": [-1], "activation": "relu"})
    (result,) = engine.Program(good, sequential(good), []).run(
        [np.full((1, 8, 8, 4), -1, np.float32)]
    )
    assert not result.any()


@pytest.mark.parametrize("number", HUGE)
def test_every_number_of_an_operator_has_a_range(number):
    pair = [number, number]
    for op in (
        conv(filters=number),
        conv(kernel=pair),
        conv(kernel=[1, number]),
        conv(strides=pair),
        conv(dilations=pair, kernel=[3, 3]),
        conv(groups=number),
        conv(padding=[number, 0, 0, 0]),
        conv(padding=[number] * 4),
        {"type": "sepconv", "inputs": [-1], "filters": 4, "multiplier": number},
        {"type": "sepconv", "inputs": [-1], "filters": number},
        {"type": "matmul", "inputs": [-1], "filters": number, "kernel": [8, 8]},
        {"type": "matmul", "inputs": [-1], "filters": 1, "kernel": pair},
        {"type": "slice", "inputs": [-1], "offset": number, "size": 1},
        {"type": "slice", "inputs": [-1], "offset": 1, "size": number},
        {"type": "slice", "inputs": [-1], "offset": number, "size": number},
        {"type": "resize", "inputs": [-1], "output_size": pair},
        {"type": "resize", "inputs": [-1], "factors": pair},
        {"type": "depth_to_space", "inputs": [-1], "block_size": number},
        {"type": "space_to_depth", "inputs": [-1], "block_size": number},
        {"type": "normalize", "inputs": [-1], "groups": number},
        {"type": "channel_shuffle", "inputs": [-1], "groups": number},
        {"type": "pool", "inputs": [-1], "kernel": pair, "padding": "SAME"},
        {"type": "pool", "inputs": [-1], "strides": pair},
        {"type": "pad", "inputs": [-1], "channel_padding": pair},
        {"type": "binary", "inputs": [-1], "operand": [1, 1, 1, number]},
        {"type": "conv2d_transpose", "inputs": [-1], "filters": number},
        {"type": "conv2d_transpose", "inputs": [-1], "filters": 1, "strides": pair},
        {
            "type": "conv2d_transpose",
            "inputs": [-1],
            "filters": 1,
            "kernel": pair,
            "dilations": pair,
        },
    ):
        refused(block(op))
    # A single padding of -1 is valid: it crops.
    if abs(number) > 2**30:
        refused(block({"type": "pad", "inputs": [-1], "padding": [abs(number)] * 4}))
        refused(block({"type": "pad", "inputs": [-1], "padding": [number] * 4}))
        refused(block({"type": "lrn", "inputs": [-1], "depth_radius": number}))
    still_works()


@pytest.mark.parametrize(
    "shape",
    [
        [],
        [1],
        [8, 8, 4],
        [1, 8, 8, 8, 4],
        *([n, 8, 8, 4] for n in HUGE),
        *([1, 8, 8, n] for n in HUGE),
        [2**30] * 4,
        [0, 2**62, 2**62, 4],
        [2**20, 2**20, 2**20, 4],
    ],
)
def test_no_tensor_is_too_large_or_has_another_rank(shape):
    relu = {"type": "activation", "inputs": [-1], "activation": "relu"}
    assert str(shape[0] if shape else "[]").split(".")[0] in refused(
        block(relu, inputs=[shape])
    )
    # A tensor that nothing reads is checked too.
    refused(block(relu, inputs=[[1, 8, 8, 4], shape]))


def test_products_of_small_numbers_have_a_range_too():
    many = 2**29
    refused(block(conv(filters=many), conv(inputs=[0], filters=many)))
    refused(block({"type": "resize", "inputs": [-1], "factors": [2**20, 2**20]}))
    sepconv = {"type": "sepconv", "inputs": [-1], "filters": 1, "multiplier": many}
    refused(block(sepconv, inputs=[[1, 8, 8, many]]))
    refused(block(conv(kernel=[2**15, 2**15])))
    refused(block({"type": "pool", "inputs": [-1], "kernel": [2**29, 1]}))
    refused(block(conv(padding=[2**29] * 4)))
    wide = {"type": "pad", "inputs": [-1], "padding": [2**29, 0, 0, 0]}
    refused(block(wide, inputs=[[1, 1, 1, 1]]))
    still_works()


def test_references_do_not_wrap_around():
    for ref in (2**32, 2**32 - 1, 2**31, -(2**31) - 1, -(2**32), 2**64 - 1):
        refused(block(conv(inputs=[ref])))
        refused(block(conv(), outputs=[ref]))
    refused(block(conv(inputs=[2**70])))
    refused(block(conv(inputs=[0.5])))
    refused(block(conv(inputs=[True])))


RELU = {"type": "activation", "inputs": [-1], "activation": "relu"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("types", "error"),
    [
        ("bfloat16", "malformed"),
        (None, "malformed"),
        ({"0": "bfloat16"}, "malformed"),
        ([1], "malformed"),
        ([None], "malformed"),
        ([["bfloat16"]], "malformed"),
        (["bfloat16"] * 2, "one data type for each"),
        (["bfloat16"] * 100_000, "one data type for each"),
        (["float64"], "'float64'"),
        (["BFLOAT16"], "'BFLOAT16'"),
        (["bfloat16\n"], "'bfloat16 '"),
        (["x\n" * 100_000], " x ...'"),
        ([""], "''"),
    ],
)
@pytest.mark.parametrize("member", ["input_dtypes", "output_dtypes"])
def test_types_of_tensors(member, types, error, dtype):
    assert error in refused(block(RELU, dtype=dtype, **{member: types}))
    # The list may be empty, which means that all tensors have the block's type.
    assert try_all(block(RELU, dtype=dtype, **{member: []})) == [""] * 3


@pytest.mark.parametrize(
    "dtype", ["float64", "", "bfloat16 ", "x\n" * 100_000, 7, None]
)
def test_types_of_blocks(dtype):
    refused(block(RELU, dtype=dtype))


def test_half_precision_on_a_cpu():
    problem, *errors = try_all(block(RELU, dtype="float16"))
    assert not problem  # a GPU can run it
    assert all("not supported on the CPU" in error for error in errors)
    still_works()


@pytest.mark.parametrize("text", ["x" * 100_000, "x\n" * 100_000])
def test_long_names_are_shortened_in_errors(text):
    refused(block({**RELU, "type": text}))
    refused(block({**RELU, "activation": text}))
    refused(block({**RELU, "inputs": [7], "name": text}))
    found = block(conv())
    stages = {"version": 1, "stages": [{"strategy": text, "groups": [[0]]}]}
    algorithm = {**sequential(found), "algorithms": {"0": text}}
    for schedule in (stages, algorithm):
        with pytest.raises(EngineError) as error:
            engine.Program(found, schedule, [np.ones((1, 1, 4, 4))])
        assert len(str(error.value)) < 500 and "\n" not in str(error.value)


def test_numbers_that_float32_does_not_hold():
    for number in (1e300, -1e300, 10**400):
        leaky = {"type": "activation", "inputs": [-1], "activation": "leaky_relu"}
        refused(block({**leaky, "alpha": number}))
        refused(block({"type": "lrn", "inputs": [-1], "normalization": [number, 1, 1]}))


def test_more_operators_than_are_planned_are_refused_at_once():
    chain = [conv(inputs=[i - 1]) for i in range(50_000)]
    start = time.monotonic()
    assert "10000" in refused(block(*chain))
    star = {"type": "add", "inputs": [-1] * 2000}
    assert "2000 inputs" in refused(block(star))
    sums = [{"type": "add", "inputs": [-1] * 1000} for _ in range(200)]
    assert "more than 100000 tensors" in refused(block(*sums))
    assert time.monotonic() - start < 60  # it used to take minutes


def test_the_largest_block_is_planned():
    """The planner handles 10,000 operators in its worst case: concurrent, all live."""
    relu = {"type": "activation", "activation": "relu"}
    wide = [{**relu, "inputs": [-1]} for _ in range(9_990)]
    sums = [
        {"type": "add", "inputs": list(range(999 * i, 999 * i + 999))}
        for i in range(10)
    ]
    found = block(*wide, *sums, inputs=[[1, 1, 1, 1]], outputs=list(range(9990, 10000)))
    groups = [[i] for i in range(9_990)]
    schedule = {
        "version": 1,
        "stages": [
            {"strategy": "concurrent", "groups": groups},
            {"strategy": "concurrent", "groups": [[9_990 + i] for i in range(10)]},
        ],
    }
    results = engine.Program(found, schedule, []).run([np.ones((1, 1, 1, 1))])
    assert [float(r.item()) for r in results] == [999.0] * 10


@pytest.mark.parametrize(
    "members",
    [
        "[" * 200_000 + "]" * 200_000,
        '{"a":' * 200_000 + "1" + "}" * 200_000,
        "[" * 200_000,
        "[" * 33 + "]" * 33,
    ],
    ids=["lists", "objects", "unclosed", "33"],
)
def test_nothing_is_nested_deep(members):
    library = engine._library()
    good = json.dumps(block(conv()))
    schedule = json.dumps(sequential(block(conv())))
    for key in ("version", "name", "operators", "other"):
        for text in (f'{{"{key}": {members}}}', f'{{"{key}": {members},{good[1:]}'):
            assert not library.ios_problem(text.encode())
            error = library.ios_last_error().decode()
            assert len(error) < 200
            assert not library.ios_program_create(
                good.encode(), text.encode(), None, None, 0, b"cpu"
            )
        deep = f'{{"{key}": {members},{schedule[1:]}'
        assert not library.ios_program_create(
            good.encode(), deep.encode(), None, None, 0, b"cpu"
        )
        assert "nested too deep" in library.ios_last_error().decode()
    # Brackets within a string do not count as nesting.
    engine.problem(block(conv(name="[" * 1000 + '"\\[{')))


def test_no_document_is_larger_than_16_mebibytes():
    text = json.dumps(block(conv(name="x" * 2**24))).encode()
    assert not engine._library().ios_problem(text)
    assert "bytes, but the limit is" in engine._library().ios_last_error().decode()


def merged(*operators: dict) -> dict:
    return {
        "version": 1,
        "stages": [{"strategy": "merge", "groups": [list(range(len(operators)))]}],
    }


def test_a_merge_does_not_multiply_windows():
    parts = [conv(kernel=[1, 4000], filters=1), conv(kernel=[4000, 1], filters=1)]
    found = block(*parts, inputs=[[1, 8, 8, 1]], outputs=[0, 1])
    assert engine.problem(found)["merge_classes"] == []
    weights = [np.ones(4000), np.ones(4000)]
    with pytest.raises(EngineError, match="too large"):
        engine.Program(found, merged(*parts), weights)
    with pytest.raises(EngineError, match="too large"):
        engine.Profiler(found).sample([merged(*parts)], 0, 1, 1)
    # The paper's merges are far below the limit.
    parts = [conv(kernel=[1, 7]), conv(kernel=[7, 1])]
    found = block(*parts, outputs=[0, 1])
    assert engine.problem(found)["merge_classes"] == [[0, 1]]
    engine.Profiler(found).sample([merged(*parts)], 0, 1, 1)


@pytest.mark.parametrize(
    "stages",
    [
        [{"strategy": "concurrent", "groups": [[0], [0]]}],
        [{"strategy": "concurrent", "groups": [[0, 0]]}],
        [{"strategy": "concurrent", "groups": [[0], [1]]}],
        [{"strategy": "concurrent", "groups": [[1, 0]]}],
        [{"strategy": "concurrent", "groups": [[]]}],
        [{"strategy": "concurrent", "groups": []}],
        [{"strategy": "concurrent", "groups": [[2**32]]}],
        [{"strategy": "merge", "groups": [[0, 0]]}],
        [{"strategy": "merge", "groups": [[0], [1]]}],
        [{"strategy": "merge", "groups": []}],
        [{"strategy": "split", "groups": [[0, 1]], "micro_batches": 2**62}],
        [{"strategy": "split", "groups": [[0, 1]], "micro_batches": 2**64 - 1}],
        [{"strategy": "split", "groups": [[0, 1]], "micro_batches": -1}],
        [{"strategy": "split", "groups": [[1, 0]], "micro_batches": 2}],
    ],
)
def test_stages_that_would_race_are_not_even_measured(stages):
    found = block(conv(), conv(inputs=[0]))
    schedule = {"version": 1, "stages": stages}
    with pytest.raises(EngineError):
        engine.Profiler(found).sample([schedule], 0, 1, 1)
    weights = [np.ones((1, 1, 4, 4))] * 2
    with pytest.raises(EngineError):
        engine.Program(found, schedule, weights)


LIMITED = """
import json, resource, sys
import numpy as np
from ios_tf.native import engine

def attempt(what, call):
    try:
        call()
        print(what, "done")
    except engine.EngineError as error:
        print(what, error)

relu = {"type": "activation", "inputs": [-1], "activation": "relu"}
convolution = {"type": "conv2d", "inputs": [0], "filters": 4, "kernel": [3, 3]}
block = {"version": 1, "inputs": [[1, 8, 8, 4]], "operators": [relu, convolution],
         "outputs": [1]}
stages = [{"strategy": "concurrent", "groups": [[i]]} for i in range(2)]
schedule = {"version": 1, "stages": stages}
program = engine.Program(block, schedule, [np.ones((3, 3, 4, 4))])
program.run([np.ones((1, 8, 8, 4))])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, used + 2**28))
x = np.zeros((100, 100, 100, 4), np.float32)
for batch in (2**12, 2**20):
    call = program.bind([np.broadcast_to(x, x.shape)], [x])
    shape = (engine.ctypes.c_int64 * 4)(batch, 100, 100, 4)
    code = engine._library().ios_program_run(
        program._handle, engine._pointers([x.ctypes.data]), shape, 1,
        engine._pointers([x.ctypes.data]), 1)
    print("run", code, engine._library().ios_last_error().decode())
large = {**block, "inputs": [[64, 1024, 1024, 4]]}
attempt("profile", lambda: engine.Profiler(large).sample([schedule], 0, 1, 1))
text = json.dumps({**block, "name": "x" * 2**23}).encode()
attempt("small", lambda: program.run([np.ones((1, 8, 8, 4))]))
"""


def test_no_memory_is_an_error_and_the_process_lives():
    lines = run_python("-c", LIMITED).stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["run", "1"]] * 2
    assert all("out of memory" in line for line in lines[:3]), lines
    assert lines[3] == "small done"


def test_a_block_that_needs_more_memory_than_there_is_is_not_begun():
    """A block that needs more memory than the machine has is refused before it runs.

    Linux would grant the memory, and end the process when it writes to it.
    """
    with open("/proc/meminfo") as file:
        kibibytes = int(next(x for x in file if "MemTotal" in x).split()[1])
    side = int((kibibytes * 1024 / 4 / 4) ** 0.5) + 1
    relu = {"type": "activation", "inputs": [-1], "activation": "relu"}
    large = block(relu, inputs=[[1, side, side, 4]])
    with pytest.raises(EngineError, match="out of memory"):
        engine.Profiler(large).sample([sequential(large)], 0, 1, 1)
    units = {"type": "matmul", "inputs": [-1], "filters": 4 * side}
    dense = block(units, inputs=[[1, side]])
    with pytest.raises(EngineError, match="out of memory"):
        engine.Profiler(dense).sample([sequential(dense)], 0, 1, 1)


def test_no_threads_are_an_error_and_later_there_are_some():
    code = """
import resource
import numpy as np
from ios_tf.native import engine
soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
relu = {"type": "activation", "inputs": [-1], "activation": "relu"}
block = {"version": 1, "inputs": [[1, 8, 8, 4]], "operators": [relu], "outputs": [0]}
schedule = {"version": 1, "stages": [{"strategy": "concurrent", "groups": [[0]]}]}
program = engine.Program(block, schedule, [])
x = np.full((1, 8, 8, 4), 2, np.float32)
y = np.zeros_like(x)
call = program.bind([x], [y])
as_soft, as_hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + 2**22, as_hard))
try:
    call()
    print("done")
except engine.EngineError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (as_soft, as_hard))
call()
print(y.sum())
"""
    first, second = run_python("-c", code).stdout.splitlines()
    assert "unavailable" in first or "memory" in first or os.cpu_count() == 1
    assert second == str(2.0 * 8 * 8 * 4)


@pytest.mark.parametrize(
    "threads", ["100000", "-5", "0", "abc", "99999999999999999999"]
)
def test_any_number_of_threads(threads):
    code = "from ios_tf.native import engine; print(engine.lane_count())"
    done = run_python("-c", code, IOS_TF_NUM_THREADS=threads)
    assert 1 <= int(done.stdout) <= (os.cpu_count() or 1)
    assert f"IOS_TF_NUM_THREADS={threads}" in done.stderr


@pytest.mark.parametrize(
    "operators", [[], [3], [-1], [1, 0], [0, 0], [0, 1, 2, 3]], ids=str
)
def test_no_parts_of_blocks(operators):
    second = {**conv(), "inputs": [0]}
    three = block(conv(), second, {"type": "concat", "inputs": [0, 1]})
    with pytest.raises(EngineError):
        engine.part(three, operators)
    found = engine.part(three, [1, 2])["block"]
    assert found["inputs"] == [[1, 8, 8, 4]]
    assert [op["inputs"] for op in found["operators"]] == [[-1], [-1, 0]]
    assert found["outputs"] == [1]


def test_many_callers_of_hostile_blocks_at_once():
    """Each error is reported to the thread that caused it."""

    def call(number: int) -> None:
        for _ in range(50):
            error = refused(block(conv(filters=-number)))
            assert f"{number}" in error or "groups" in error

    in_threads(call, range(1, 9))
    still_works()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_reaches_as_far_as_the_largest_window_of_a_merge(value):
    """NaN and infinities reach as far as the largest window of a merge, but no further.

    Values that are finite with and without the merge are equal. See SECURITY.md.
    """
    found = block(conv(), conv(kernel=[5, 5]), outputs=[0, 1])
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(k, k, 4, 4)).astype(np.float32) for k in (1, 5)]
    merged = {"version": 1, "stages": [{"strategy": "merge", "groups": [[0, 1]]}]}
    image = rng.normal(size=(1, 8, 8, 4)).astype(np.float32)
    image[0, 4, 4, 2] = value
    results = []
    for schedule, pixels in ((sequential(found), 1), (merged, 25)):
        small, large = engine.Program(found, schedule, weights).run([image])
        for output, expected in ((small, pixels), (large, 25)):
            assert (~np.isfinite(output)).any(-1).sum() == expected
        results.append((small, large))
    for one, other in zip(*results, strict=True):
        both = np.isfinite(one) & np.isfinite(other)
        np.testing.assert_allclose(one[both], other[both], rtol=1e-4, atol=1e-4)
