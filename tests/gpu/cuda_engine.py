"""Running the engine on the fake GPU: element types, device memory, repeated runs."""

from __future__ import annotations

from collections.abc import Sequence

import cuda_driver
import numpy as np

from ios_tf.native import engine

# A GPU that computes float32 exactly. The device "gpu" may compute it in TF32.
DEVICE = "gpu,tf32=off"
# Tolerances relative to the largest value.
TOLERANCE = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}


def encode(values: np.ndarray, dtype: str) -> np.ndarray:
    """Converts float32 values to `dtype`; bfloat16 is represented by its bits."""
    if dtype == "float32":
        return values.astype(np.float32)
    if dtype == "float16":
        return values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def decode(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds float32 values to `dtype`, and returns them as float32."""
    return decode(encode(values, dtype))


def assert_close(
    actual: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float
) -> None:
    for got, want in zip(actual, expected, strict=True):
        assert got.shape == want.shape
        limit = tolerance * max(np.abs(want).max(initial=0), 1e-3)
        np.testing.assert_allclose(got, want, rtol=0, atol=limit)


def on_cpu(
    block: dict, schedule: dict, weights: Sequence[np.ndarray], inputs, dtype: str
) -> list[np.ndarray]:
    """The CPU backend's outputs in float32 of operands rounded to `dtype`."""
    program = engine.Program(
        {**block, "dtype": "float32"}, schedule, [rounded(w, dtype) for w in weights]
    )
    return program.run([rounded(x, dtype) for x in inputs])


class DeviceRun:
    """A program with its own memory on the GPU, and by default its own stream.

    The first run enqueues each kernel, the second run captures a graph, and later runs
    replay this graph, because the addresses stay the same.
    """

    def __init__(
        self,
        gpu: cuda_driver.Driver,
        program: engine.Program,
        inputs: Sequence[np.ndarray],
        dtype: str,
        stream: int | None = None,
    ):
        self._gpu, self._program, self._dtype = gpu, program, dtype
        arrays = [encode(x, dtype) for x in inputs]
        # Even an empty image needs a valid address.
        self._inputs = [
            (gpu.make("cuMemAlloc", max(a.nbytes, 1)), a.shape) for a in arrays
        ]
        self._outputs = [
            np.zeros(shape, arrays[0].dtype)
            for shape in program.output_shapes([a.shape for a in arrays])
        ]
        self._results = [gpu.make("cuMemAlloc", a.nbytes) for a in self._outputs]
        self._own_stream = stream is None
        self.stream = gpu.make("cuStreamCreate", 1) if stream is None else stream
        self.set_inputs(inputs)

    def set_inputs(self, inputs: Sequence[np.ndarray]) -> None:
        for x, (address, _) in zip(inputs, self._inputs, strict=True):
            if x.size:
                self._gpu.write(address, encode(x, self._dtype), self.stream)

    def enqueue(self) -> None:
        self._program.bind_device(self._inputs, self._results, self.stream)()

    def results(self) -> list[np.ndarray]:
        """Waits for the last run and returns its outputs.

        The memory of the outputs is overwritten, so that a run that writes nothing is
        noticed.
        """
        found = []
        for address, array in zip(self._results, self._outputs, strict=True):
            found.append(decode(self._gpu.read(address, array, self.stream)))
            self._gpu("cuMemsetD8Async", address, 0xFF, array.nbytes, self.stream)
        return found

    def __call__(self) -> list[np.ndarray]:
        self.enqueue()
        return self.results()

    def close(self) -> None:
        for address in [*(a for a, _ in self._inputs), *self._results]:
            self._gpu("cuMemFree", address)
        if self._own_stream:
            self._gpu("cuStreamDestroy", self.stream)
