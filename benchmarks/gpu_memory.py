"""GPU memory and a stream, in the engine's context, using only the CUDA driver."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from ios_tf.native import engine


class GpuMemory:
    """Owns arrays on a GPU, which live as long as this object.

    Attributes:
      stream: a CUDA stream for `Program.bind_device`.

    Raises:
      EngineError: a driver call failed; every method can raise this.
    """

    def __init__(self, ordinal: int) -> None:
        self._addresses: list[int] = []
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._check("cuInit", 0)
        context = ctypes.c_uint64()
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
        self._context = context.value
        self.stream = self._made("cuStreamCreate", 1)  # non-blocking

    def allocate(self, size: int) -> int:
        """Allocates `size` bytes; returns the address."""
        address = self._made("cuMemAlloc_v2", max(size, 1))
        self._addresses.append(address)
        return address

    def upload(self, array: np.ndarray) -> int:
        """Copies an array to the GPU; returns the address."""
        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes)
        source = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyHtoDAsync_v2", address, source, array.nbytes, self.stream)
        self.synchronize()
        return address

    def download(self, address: int, array: np.ndarray) -> None:
        """Fills an array with the data at the address."""
        target = ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyDtoHAsync_v2", target, address, array.nbytes, self.stream)
        self.synchronize()

    def bind(
        self,
        program: engine.Program,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
    ) -> tuple[Callable[[], None], list[int]]:
        """Copies a program's inputs to the GPU.

        Args:
          program: the program.
          inputs: its inputs.
          outputs: arrays of the size of its outputs.

        Returns:
          A function that enqueues one run, and the addresses of the outputs.
        """
        addresses = [self.allocate(y.nbytes) for y in outputs]
        given = [(self.upload(x), x.shape) for x in inputs]
        return program.bind_device(given, addresses, self.stream), addresses

    def synchronize(self) -> None:
        """Waits until the stream is done."""
        self._call("cuStreamSynchronize", self.stream)

    def __del__(self) -> None:
        for address in self._addresses:
            self._call("cuMemFree_v2", address)

    def _call(self, name: str, *arguments: object) -> None:
        self._check("cuCtxPushCurrent_v2", self._context)
        try:
            self._check(name, *arguments)
        finally:
            self._check("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_uint64()))

    def _check(self, name: str, *arguments: object) -> None:
        words = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        code = getattr(self._driver, name)(*words)
        if code:
            raise engine.EngineError(f"{name}: CUDA error {code}")

    def _made(self, name: str, *arguments: object) -> int:
        made = ctypes.c_uint64()
        self._call(name, ctypes.byref(made), *arguments)
        return made.value
