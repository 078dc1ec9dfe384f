"""Tests the translator of PTX. Instructions give the results that PTX's manual defines,
mistakes in kernels are found, and the engine's operators give correct results with the
code of NVIDIA's compiler."""

import ctypes
import json
from collections.abc import Iterator
from pathlib import Path

import compile_ptx
import cuda_driver
import judge_ptx
import kernel_variants
import numpy as np
import nvrtc
import pytest
from ptx import syntax, translate

pytestmark = pytest.mark.one_core

# Each thread reads two words, %a and %b, and writes %c behind the words of all threads.
KERNEL = """
.visible .entry {name}(.param .align 8 .b8 {name}_param_0[8])
.maxntid 256, 1, 1
{{
  .reg .pred %p<3>;
  .reg .b16 %h;
  .reg .f32 %f<3>;
  .reg .b32 %a, %b, %c, %block, %blocks, %thread, %threads, %index;
  .reg .b64 %memory, %result, %wide;
  .shared .align 4 .b8 {name}_shared[256];
  ld.param.u64 %memory, [{name}_param_0];
  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %threads, %ntid.x;
  mad.lo.s32 %index, %block, %threads, %thread;
  mul.lo.s32 %threads, %threads, %blocks;
  mad.wide.u32 %result, %threads, 8, %memory;
  mad.wide.u32 %result, %index, 4, %result;
  mad.wide.u32 %memory, %index, 8, %memory;
  mul.wide.u32 %wide, %thread, 4;
  ld.global.v2.u32 {{%a, %b}}, [%memory];
  mov.b32 %f0, %a;
  mov.b32 %f1, %b;
  mov.u32 %c, 7;
  {body}
  st.global.u32 [%result], %c;
  ret;
}}
"""
FLOAT_RESULT = "mov.b32 %c, %f2;"
PREDICATE_RESULT = "selp.u32 %c, 1, 0, %p1;"


def pairs(values: list[float], dtype: type) -> np.ndarray:
    """All pairs of values, as 32-bit words."""
    x, y = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    return np.stack([x.ravel(), y.ravel()], axis=1).view(np.uint32)


INTEGERS = pairs([0, 1, 3, 31, 32, 33, 2**31 - 1, 2**31, 2**32 - 7], np.uint32)
# Numbers whose sums and products are exact in float64.
NUMBERS = [0.0, 1.0, -1.0, 0.7, -3.25, 2.0**-20, -(2.0**-18), 300.0]
FLOATS = pairs([*NUMBERS, np.inf, -np.inf, np.nan], np.float32)
LARGE = pairs([0.5, 1.5, -1.5, 2.5, 3e9, 1e10, -1e10, np.inf, np.nan], np.float32)
HALVES = np.repeat(np.arange(2**16, dtype=np.uint32)[:, None], 2, axis=1)


def roundings() -> np.ndarray:
    """Floats of all magnitudes, and those halfway between two float16 numbers."""
    random = np.random.default_rng(0).integers(0, 2**32, 4000, dtype=np.uint32)
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = ((halves[1:] + halves[:-1]) / 2).view(np.uint32)
    ends = np.array([65519.9, 65520, -65520, np.inf, -0.0, 3.4e38], np.float32)
    words = np.concatenate([random, middles, ends.view(np.uint32)])
    words = words[~np.isnan(words.view(np.float32))]
    return np.repeat(words[:, None], 2, axis=1)


def integer(function, dtype=np.int64):
    """Returns a function of words that applies `function` to unlimited integers.

    The words are read as signed integers if `dtype` is signed.
    """
    kind = np.int32 if dtype is np.int64 else np.uint32

    def expected(words: np.ndarray) -> np.ndarray:
        values = [function(int(x), int(y)) % 2**32 for x, y in words.view(kind)]
        return np.array(values, np.uint32)

    return expected


def unsigned(function):
    return integer(function, np.uint64)


def of_floats(function, dtype=np.float32):
    """Returns a function of words that applies `function` to them as floats.

    The result is rounded to `dtype`.
    """

    def expected(words: np.ndarray) -> np.ndarray:
        x, y = words.view(np.float32).astype(np.float64).T
        with np.errstate(all="ignore"):
            result = np.asarray(function(x, y)).astype(dtype)
        return result.view(np.uint32) if dtype is np.float32 else result

    return expected


def directed(function, towards):
    """Returns a function of words that rounds exact results in one direction.

    `function` gives the exact results in float64, and `towards` the direction.
    """

    def expected(words: np.ndarray) -> np.ndarray:
        x, y = words.view(np.float32).astype(np.float64).T
        with np.errstate(all="ignore"):
            exact = function(x, y)
            nearest = exact.astype(np.float32)
            target = towards(exact)
            # True where the nearest float lies on the other side of the exact number.
            beyond = (nearest - exact) * np.sign(target - exact) < 0
            moved = np.nextafter(nearest, target.astype(np.float32))
        return np.where(beyond, moved, nearest).view(np.uint32)

    return expected


def clipped(rounding, low: int, high: int):
    """Returns a function of words that converts floats to integers.

    Numbers outside of the range are clipped, and NaN gives 0.
    """

    def expected(words: np.ndarray) -> np.ndarray:
        x = words.view(np.float32)[:, 0].astype(np.float64)
        values = np.clip(rounding(np.where(np.isnan(x), 0, x)), low, high)
        return values.astype(np.int64).astype(np.uint32)

    return expected


def bfloat16(words: np.ndarray) -> np.ndarray:
    """Rounds to the nearest bfloat16, or to the even one if two are equally near."""
    low = words[:, 0] >> 16
    # The number after the largest finite one is treated as a number, not as infinity.
    exponents = (low[:, None] + np.array([0, 1])) & 0x7FFF
    fields, fractions = exponents >> 7, exponents & 127
    values = np.where(
        fields == 0,
        np.ldexp(fractions.astype(np.float64), -133),
        np.ldexp(128.0 + fractions, fields.astype(np.int32) - 134),
    )
    exact = np.abs(words.view(np.float32)[:, 0].astype(np.float64))
    with np.errstate(invalid="ignore"):
        below, above = exact - values[:, 0], values[:, 1] - exact
    up = (above < below) | ((above == below) & (low % 2 == 1))
    up &= np.isfinite(exact)
    return (low + up).astype(np.uint32)


def compare(function):
    return of_floats(function, np.uint32)


# For each case: instructions, the words on which they run, and a function that computes
# the expected results.
CASES = {
    "add": ("add.s32 %c, %a, %b;", INTEGERS, integer(lambda x, y: x + y)),
    "subtract": ("sub.s32 %c, %a, %b;", INTEGERS, integer(lambda x, y: x - y)),
    "multiply": ("mul.lo.s32 %c, %a, %b;", INTEGERS, integer(lambda x, y: x * y)),
    "multiply_high": (
        "mul.hi.u32 %c, %a, %b;",
        INTEGERS,
        unsigned(lambda x, y: x * y >> 32),
    ),
    "multiply_wide": (
        "mul.wide.s32 %wide, %a, %b; shr.u64 %wide, %wide, 32; cvt.u32.u64 %c, %wide;",
        INTEGERS,
        integer(lambda x, y: x * y >> 32),
    ),
    "multiply_add_wide": (
        "mov.u64 %wide, 5; mad.wide.u32 %wide, %a, %b, %wide; cvt.u32.u64 %c, %wide;",
        INTEGERS,
        unsigned(lambda x, y: x * y + 5),
    ),
    "remainder": (
        "or.b32 %b, %b, 2; rem.s32 %c, %a, %b;",
        INTEGERS,
        integer(lambda x, y: (abs(x) % abs(y | 2)) * (1 if x >= 0 else -1)),
    ),
    "minimum": ("min.s32 %c, %a, %b;", INTEGERS, integer(min)),
    "maximum": ("max.u32 %c, %a, %b;", INTEGERS, unsigned(max)),
    "shift_left": (
        "shl.b32 %c, %a, %b;",
        INTEGERS,
        unsigned(lambda x, y: x << min(y, 32)),
    ),
    "shift_right": (
        "shr.u32 %c, %a, %b;",
        INTEGERS,
        unsigned(lambda x, y: x >> min(y, 32)),
    ),
    "shift_right_signed": (
        "and.b32 %b, %b, 63; shr.s32 %c, %a, %b;",
        INTEGERS,
        integer(lambda x, y: x >> (y & 63)),
    ),
    "insert_bits": (
        "bfi.b32 %c, %a, %b, 8, 4;",
        INTEGERS,
        unsigned(lambda x, y: y & 0xFFFFF0FF | (x & 15) << 8),
    ),
    "choose": (
        "setp.gt.u32 %p1, %a, %b; not.pred %p2, %p1; selp.b32 %c, %a, %b, %p2;",
        INTEGERS,
        unsigned(min),
    ),
    "guard": (
        "setp.lt.s32 %p1, %a, %b; @!%p1 mov.u32 %c, 9;",
        INTEGERS,
        integer(lambda x, y: 7 if x < y else 9),
    ),
    "branch": (
        "setp.lt.s32 %p1, %a, %b; @%p1 bra $END; mov.u32 %c, 9; $END:",
        INTEGERS,
        integer(lambda x, y: 7 if x < y else 9),
    ),
    "scope": (
        "{ .reg .b32 %a; mov.u32 %a, 3; } mov.u32 %c, %a;",
        INTEGERS,
        integer(lambda x, y: x),
    ),
    "less_or_unordered": (
        "setp.ltu.f32 %p1, %f0, %f1;" + PREDICATE_RESULT,
        FLOATS,
        compare(lambda x, y: ~(x >= y)),
    ),
    "not_equal": (
        "setp.ne.f32 %p1, %f0, %f1;" + PREDICATE_RESULT,
        FLOATS,
        compare(lambda x, y: (x < y) | (x > y)),
    ),
    "not_a_number": (
        "setp.nan.f32 %p1, %f0, %f1;" + PREDICATE_RESULT,
        FLOATS,
        compare(lambda x, y: np.isnan(x) | np.isnan(y)),
    ),
    "maximum_of_floats": (
        "max.f32 %f2, %f0, %f1;" + FLOAT_RESULT,
        FLOATS,
        of_floats(np.fmax),
    ),
    "minimum_of_floats": (
        "min.f32 %f2, %f0, %f1;" + FLOAT_RESULT,
        FLOATS,
        of_floats(np.fmin),
    ),
    "fma": (
        "fma.rn.f32 %f2, %f0, 0f40400000, %f1;" + FLOAT_RESULT,
        FLOATS,
        of_floats(lambda x, y: 3 * x + y),
    ),
    "fma_rounded_down": (
        "fma.rm.f32 %f2, %f0, 0f40400000, %f1;" + FLOAT_RESULT,
        FLOATS,
        directed(lambda x, y: 3 * x + y, lambda x: np.full(x.shape, -np.inf)),
    ),
    "sum_rounded_to_zero": (
        "add.rz.f32 %f2, %f0, %f1;" + FLOAT_RESULT,
        FLOATS,
        directed(lambda x, y: x + y, np.zeros_like),
    ),
    "saturate": (
        "cvt.sat.f32.f32 %f2, %f0;" + FLOAT_RESULT,
        FLOATS,
        of_floats(lambda x, y: np.where(np.isnan(x), 0, np.clip(x, 0, 1)) + 0.0),
    ),
    "to_signed": (
        "cvt.rzi.s32.f32 %c, %f0;",
        LARGE,
        clipped(np.trunc, -(2**31), 2**31 - 1),
    ),
    "to_unsigned": ("cvt.rni.u32.f32 %c, %f0;", LARGE, clipped(np.rint, 0, 2**32 - 1)),
    "from_half": (
        "cvt.u16.u32 %h, %a; cvt.f32.f16 %f2, %h;" + FLOAT_RESULT,
        HALVES,
        lambda words: (
            words[:, 0]
            .astype(np.uint16)
            .view(np.float16)
            .astype(np.float32)
            .view(np.uint32)
        ),
    ),
    "to_half": (
        "cvt.rn.f16.f32 %h, %f0; cvt.u32.u16 %c, %h;",
        roundings(),
        of_floats(lambda x, y: x.astype(np.float16).view(np.uint16), np.uint32),
    ),
    "to_bfloat16": (
        "cvt.rn.bf16.f32 %h, %f0; cvt.u32.u16 %c, %h;",
        roundings(),
        bfloat16,
    ),
}
# Kernels with a mistake, each with words from the fake GPU's message.
TO_SHARED = "st.shared.u32 [%wide], %a;"
# Thread i reads what thread 63 - i has written.
MIRROR = "mul.wide.u32 %wide, %thread, 4; sub.s64 %wide, 252, %wide;"
MISTAKES = {
    "read_after_write": (
        f"{TO_SHARED} bar.sync 0; {TO_SHARED} {MIRROR} ld.shared.u32 %c, [%wide];",
        "without a barrier",
    ),
    "write_after_read": (
        f"{TO_SHARED} bar.sync 0; ld.shared.u32 %c, [%wide]; {MIRROR} "
        "st.shared.u32 [%wide], %b;",
        "without a barrier",
    ),
    "write_after_write": (
        f"{TO_SHARED} {MIRROR} st.shared.u32 [%wide], %b;",
        "without a barrier",
    ),
    "not_written": (
        "ld.shared.u32 %c, [%wide];",
        "reads shared memory that its block has not written",
    ),
    "beyond_shared_memory": (
        "add.s64 %wide, %wide, 4; st.shared.u32 [%wide], %a;",
        "at 256 of 256 bytes of shared memory",
    ),
    "beyond_global_memory": (
        "ld.global.u32 %c, [%result+4];",
        "outside of device memory",
    ),
    "not_aligned": ("ld.global.u32 %c, [%memory+2];", "not aligned"),
    "few_wait": (
        "setp.lt.u32 %p1, %thread, 32; @%p1 bar.sync 0;",
        "do not meet at the same barrier",
    ),
}


def build(bodies: dict[str, str], path: Path, figures: bool = False) -> Path:
    text = ".version 8.8\n.target sm_90\n.address_size 64\n" + "".join(
        KERNEL.format(name=name, body=body) for name, body in bodies.items()
    )
    compile_ptx.build(translate.translate(syntax.read(text), ""), str(path), figures)
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """A library with the kernels of all cases."""
    bodies = {name: body for name, (body, *_) in [*CASES.items(), *MISTAKES.items()]}
    bodies["mirror"] = f"{TO_SHARED} {MIRROR} bar.sync 0; ld.shared.u32 %c, [%wide];"
    return build(bodies, tmp_path_factory.mktemp("ptx") / "kernels.so")


def run(cuda, library: Path, kernel: str, words: np.ndarray, threads: int):
    """The results of all threads, and the violations that the fake CUDA found."""
    driver = cuda_driver.Driver(cuda.directory)
    with driver.context():
        image = f"FAKE CUBIN sm_90 {library}".encode() + b"\0"
        module = driver.make("cuModuleLoadData", image)
        function = driver.make("cuModuleGetFunction", module, kernel.encode())
        stream = driver.make("cuStreamCreate", cuda_driver.NON_BLOCKING)
        results = np.zeros(len(words), np.uint32)
        memory = driver.make("cuMemAlloc", words.nbytes + results.nbytes)
        driver.write(memory, words, stream)
        blocks = len(words) // threads
        driver.launch(function, stream, memory, blocks=blocks, threads=threads)
        results = driver.read(memory + words.nbytes, results, stream)
        driver("cuStreamDestroy", stream)
        driver("cuMemFree", memory)
        driver("cuModuleUnload", module)
    return results, cuda.take_violations()


@pytest.mark.parametrize("name", CASES)
def test_instruction(cuda, library, name):
    _, words, function = CASES[name]
    padding = -len(words) % 256
    padded = np.concatenate([words, np.repeat(words[:1], padding, axis=0)])
    found, violations = run(cuda, library, name, padded, threads=256)
    assert violations == []
    expected = function(words)
    if "%f2" in CASES[name][0]:
        found, expected = found.view(np.float32), expected.view(np.float32)
    np.testing.assert_array_equal(found[: len(words)], expected)


def test_threads_exchange_values_in_shared_memory(cuda, library):
    words = np.arange(2 * 128, dtype=np.uint32).reshape(-1, 2)
    found, violations = run(cuda, library, "mirror", words, threads=64)
    assert violations == []
    np.testing.assert_array_equal(found[:64], words[63::-1, 0])
    np.testing.assert_array_equal(found[64:], words[:63:-1, 0])


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(cuda, library, name):
    words = np.zeros((64, 2), np.uint32)
    _, violations = run(cuda, library, name, words, threads=64)
    assert violations, "not found"
    assert any(MISTAKES[name][1] in violation for violation in violations), violations


def test_sectors_and_bank_conflicts_are_counted(cuda, tmp_path):
    few = "setp.lt.u32 %p1, %thread, "
    bodies = {
        "dense": "",
        # Each of 16 threads reads 4 of 32 bytes.
        "sparse": f"{few} 16; mad.wide.u32 %wide, %index, 24, %memory; "
        "@%p1 ld.global.u32 %c, [%wide];",
        # All threads read the same word. Then 32 threads read every second word.
        "conflict": f"{TO_SHARED} bar.sync 0; ld.shared.u32 %c, [{{name}}_shared]; "
        f"{few} 32; add.s64 %wide, %wide, %wide; @%p1 ld.shared.u32 %c, [%wide];",
    }
    bodies = {name: body.replace("{name}", name) for name, body in bodies.items()}
    library = build(bodies, tmp_path / "kernels.so", figures=True)
    counts = {}
    for name in bodies:
        _, violations = run(cuda, library, name, np.zeros((64, 2), np.uint32), 64)
        assert violations == []
        function = ctypes.CDLL(str(library))[f"ptx_figures_{name}"]
        function.restype = ctypes.c_char_p
        counts[name] = json.loads(function())
    # There are two warps. Each of them reads 256 bytes and writes 128 bytes.
    loads = {"accesses": 2, "bytes": 512, "steps": 16}
    stores = {"accesses": 2, "bytes": 256, "steps": 8}
    assert counts["dense"]["loads"] == loads
    assert all(count["stores"] == stores for count in counts.values())
    assert counts["sparse"]["loads"] == {"accesses": 3, "bytes": 576, "steps": 32}
    assert counts["conflict"]["shared"] == {"accesses": 5, "bytes": 0, "steps": 6}


@pytest.mark.parametrize(
    "body",
    [
        "vote.sync.any.pred %p1, %p2, 1;",
        "ld.u32 %c, [%memory];",
        "mov.u32 %c, %laneid;",
        "bar.sync 1;",
        "add.ftz.f32 %f2, %f0, %f1;",
    ],
)
def test_unknown_instructions_are_refused(body):
    text = KERNEL.format(name="unknown", body=body)
    with pytest.raises(syntax.PtxError, match="unknown"):
        translate.translate(syntax.read(text), "")


# Tests that use each text of kernels. Together, they load words of all widths.
OPERATORS = [
    "test_operator[add five-dense-float16]",
    "test_operator[lrn-dense-float32]",
    "test_operator[normalize-dense-float16]",
    "test_operator[pad wrapped-dense-bfloat16]",
    "test_operator[resize bilinear half_pixel-dense-float16]",
    "test_operator_of_groups[depthwise residual-dense-float16]",
    "test_operator_on_vectors[vector softmax-dense-bfloat16]",
    "test_activation_of_all_kinds_of_numbers[sin]",
    "test_space_to_depth[2-float32]",
    "test_what_keeps_nan",
]


@pytest.fixture(scope="module")
def compiler() -> Iterator[nvrtc.Nvrtc]:
    path = nvrtc.find()
    if path is None:
        pytest.skip(f"no NVRTC: {nvrtc.INSTALL}")
    compiler = nvrtc.Nvrtc(path)
    yield compiler
    compiler.close()


@pytest.mark.usefixtures("compiler")
def test_operators_pass_as_nvidia_s_compiler_understands_them():
    names = [f"tests/gpu/test_cuda_operators.py::{name}" for name in OPERATORS]
    done = judge_ptx.run_tests(names, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def basic_blocks(kernel: syntax.Kernel) -> Iterator[list[syntax.Instruction]]:
    """The sequences of instructions without a branch between them."""
    block: list[syntax.Instruction] = []
    for statement in kernel.statements:
        if isinstance(statement, syntax.Instruction):
            block.append(statement)
        branches = block and block[-1].opcode[0] in ("bra", "ret")
        if isinstance(statement, syntax.Label) or branches:
            yield block
            block = []
    yield block


@pytest.mark.parametrize(
    ("variant", "dtype", "count"),
    [
        # The rows of a window, times the columns that the windows of a strip cover.
        ("depthwise3_1_4", "float32", 3 * 6),
        ("depthwise5_2_1", "float32", 5 * 5),
        ("pool3_2_2", "bfloat16", 3 * 5),
        # The pixels that are loaded at a time.
        ("average", "float16", 4),
    ],
)
def test_conditional_loads_do_not_branch(variant, dtype, count, compiler):
    """Loads at the end of a tensor are predicated, so all loads are in flight at
    once."""
    source, _, _ = kernel_variants.VARIANTS[variant]
    macros = kernel_variants.macros_of(variant, dtype, kernel_variants.widest(dtype))
    defines = [f"-D{name}={value}" for name, value in macros.items()]
    options = ["--gpu-architecture=compute_90", "--std=c++17", *defines]
    text = compiler.ptx(kernel_variants.texts()[source], options)
    (kernel,) = syntax.read(text).kernels
    counts = [
        sum(i.opcode[:2] == ("ld", "global") and i.guard != "" for i in block)
        for block in basic_blocks(kernel)
    ]
    assert [n for n in counts if n] == [count]
