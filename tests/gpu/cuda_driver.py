"""The part of the CUDA driver API that tests of the fake driver need, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

NON_BLOCKING = 1
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2  # capture modes
OUT_OF_MEMORY, INVALID_CONTEXT = 2, 201
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_UNJOINED = 900, 901, 904

_VERSIONED = {
    **dict.fromkeys(["cuCtxPushCurrent", "cuCtxPopCurrent", "cuMemAlloc"], "_v2"),
    **dict.fromkeys(["cuMemFree", "cuMemcpyHtoD", "cuMemcpyDtoHAsync"], "_v2"),
    "cuMemcpyHtoDAsync": "_v2",
    **dict.fromkeys(["cuStreamDestroy", "cuEventDestroy"], "_v2"),
    "cuStreamBeginCapture": "_v2",
}


class CudaError(RuntimeError):
    def __init__(self, function: str, code: int):
        super().__init__(f"{function}: {code}")
        self.code = code


class Driver:
    """Calls driver functions: driver("cuInit", 0).

    A function that fails raises CudaError. Handles and addresses are integers.
    """

    def __init__(self, directory: Path):
        self._cuda = ctypes.CDLL(str(directory / "libcuda.so.1"))
        self._nvrtc = ctypes.CDLL(str(directory / "libnvrtc.so.13"))
        self("cuInit", 0)

    def __call__(self, name: str, *arguments) -> None:
        function = getattr(self._cuda, name + _VERSIONED.get(name, ""))
        code = function(
            *[ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        )
        if code:
            raise CudaError(name, code)

    def make(self, name: str, *arguments, result_is_last: bool = False) -> int:
        """Calls a function that creates an object, and returns the object's handle.

        The function returns the handle by its first or its last parameter.
        """
        made = ctypes.c_uint64()
        result = ctypes.byref(made)
        self(name, *([*arguments, result] if result_is_last else [result, *arguments]))
        return made.value

    @contextmanager
    def context(self, device: int = 0) -> Iterator[None]:
        self("cuCtxPushCurrent", self.make("cuDevicePrimaryCtxRetain", device))
        yield
        self.make("cuCtxPopCurrent")

    def compile(self, text: str) -> tuple[int, bytes | str]:
        """Returns NVRTC's result code, and the image or (after an error) the log."""
        program = ctypes.c_void_p()
        self._nvrtc.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"test.cu", 0, None, None
        )
        options = (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90")
        code = self._nvrtc.nvrtcCompileProgram(program, 1, options)
        what = "ProgramLog" if code else "CUBIN"
        size = ctypes.c_size_t()
        getattr(self._nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        getattr(self._nvrtc, f"nvrtcGet{what}")(program, data)
        self._nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        return code, data.value.decode() if code else data.raw

    def allocate(self, count: int) -> int:
        """Allocates memory for `count` floats."""
        return self.make("cuMemAlloc", 4 * count)

    def upload(self, address: int, values: Sequence[float]) -> None:
        data = np.asarray(values, np.float32)
        self("cuMemcpyHtoD", address, ctypes.c_void_p(data.ctypes.data), data.nbytes)

    def download(self, address: int, count: int, stream: int) -> np.ndarray:
        return self.read(address, np.zeros(count, np.float32), stream)

    def write(self, address: int, data: np.ndarray, stream: int) -> None:
        data = np.ascontiguousarray(data)
        pointer = ctypes.c_void_p(data.ctypes.data)
        self("cuMemcpyHtoDAsync", address, pointer, data.nbytes, stream)

    def read(self, address: int, like: np.ndarray, stream: int) -> np.ndarray:
        """Waits for the stream, and returns an array with the shape of `like`."""
        data = np.zeros_like(like)
        pointer = ctypes.c_void_p(data.ctypes.data)
        self("cuMemcpyDtoHAsync", pointer, address, data.nbytes, stream)
        self("cuStreamSynchronize", stream)
        return data

    def launch(
        self, function: int, stream: int, *arguments, blocks: int = 1, threads: int = 64
    ) -> None:
        values = [
            ctypes.c_int32(a.value)
            if isinstance(a, ctypes.c_int32)
            else ctypes.c_uint64(a)
            for a in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(
            *[ctypes.addressof(v) for v in values]
        )
        grid = [ctypes.c_uint(d) for d in (blocks, 1, 1, threads, 1, 1, 0)]
        self("cuLaunchKernel", function, *grid, stream, pointers, None)
