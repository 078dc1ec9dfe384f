"""Checks that threads which share a program compute the same outputs as one thread.

Each thread has its own CUDA stream and calls the program with batches of several sizes
in random order.
"""

from __future__ import annotations

import argparse
import functools
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks import arrays, gpu_data
from benchmarks.checks import without_measuring
from benchmarks.frameworks.runner import Data, Target, data_of
from benchmarks.gpu_memory import GpuMemory
from benchmarks.network import Network
from benchmarks.standalone import add_engine_device
from ios_tf.errors import UserError
from ios_tf.native import engine


def differences(
    network: Network, target: Target, threads: int, calls: int, sizes: int
) -> int:
    """Returns the number of outputs that differ.

    Args:
      network: the network; each of its regions is a program.
      target: a GPU.
      threads: number of threads.
      calls: number of calls per thread and region.
      sizes: the largest batch; batches have 1 to `sizes` images.

    Raises:
      EngineError: a call failed.
    """
    schedules = {
        signature: without_measuring(problem, "greedy")
        for signature, problem in network.problems.items()
    }
    wrong = 0
    for region, data in zip(
        network.regions, data_of(network, target.dtype), strict=True
    ):
        program = engine.Program(
            data.block,
            region.schedule(schedules).json_object(),
            data.flat_weights(),
            target.device,
        )
        batches = _batches(program, data, target.dtype, sizes)
        work = functools.partial(_of_thread, program, batches, target, calls)
        with ThreadPoolExecutor(threads) as pool:
            wrong += sum(pool.map(work, range(threads)))
    return wrong


# The inputs and outputs of one run.
_Batch = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]


def _batches(
    program: engine.Program, data: Data, dtype: str, sizes: int
) -> list[_Batch]:
    numbers = np.random.default_rng(0)
    batches = []
    for size in range(1, sizes + 1):
        shapes = [(size, *shape[1:]) for shape in data.block["inputs"]]
        inputs = [arrays.encoded(numbers.uniform(-1, 1, s), dtype) for s in shapes]
        batches.append((inputs, program.run(inputs)))
    return batches


def _of_thread(
    program: engine.Program,
    batches: Sequence[_Batch],
    target: Target,
    calls: int,
    seed: int,
) -> int:
    gpu = GpuMemory(target.ordinal)
    bound = []
    for inputs, expected in batches:
        bound.append((*gpu.bind(program, inputs, expected), expected))
    choose = random.Random(seed)
    wrong = 0
    for _ in range(calls):
        call, addresses, expected = choose.choice(bound)
        call()
        for address, truth in zip(addresses, expected, strict=True):
            found = np.empty_like(truth)
            gpu.download(address, found)
            wrong += not np.array_equal(found, truth)
    return wrong


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "network", metavar="NETWORK", nargs="?", default=gpu_data.SMALLEST
    )
    add_engine_device(parser, "gpu")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--sizes", type=int, default=3)


def run(options: argparse.Namespace) -> int:
    network = Network.read(options.network).with_dtype(options.dtype)
    target = Target(options.device, options.dtype)
    if target.kind == "cpu":
        raise UserError(
            f"--device={options.device}: a CPU has no CUDA streams. Use --device=gpu"
        )
    wrong = differences(network, target, options.threads, options.calls, options.sizes)
    calls = len(network.regions) * options.threads * options.calls
    failed = engine.failed_captures()
    print(
        f"{calls} calls: {wrong} outputs differ, {failed} CUDA graphs could not be made"
    )
    return int(wrong > 0)
