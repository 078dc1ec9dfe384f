"""NVIDIA's own NVRTC, which runs in a separate process. NVRTC opens itself by its
soname, and the fake NVRTC of other tests has the same soname."""

from __future__ import annotations

import concurrent.futures
import ctypes
import functools
import importlib.util
import multiprocessing
from pathlib import Path

INSTALL = "pip install nvidia-cuda-nvrtc-cu12"


def find() -> Path | None:
    """The path of the library in NVIDIA's wheel, or None if it is not installed."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(path) for path in spec.submodule_search_locations] if spec else []
    for root in roots:
        # NVRTC 13 no longer knows the oldest architecture.
        for path in root.glob("cuda_nvrtc/lib/libnvrtc.so.12"):
            return path
    return None


class Nvrtc:
    """Compiles texts of kernels in another process."""

    def __init__(self, path: Path):
        self._path = path
        self._process = concurrent.futures.ProcessPoolExecutor(
            max_workers=1, mp_context=multiprocessing.get_context("spawn")
        )

    def compile(self, text: str, options: list[str]) -> tuple[bytes, str]:
        """The CUBIN and the compiler's messages."""
        job = self._process.submit(_compile, self._path, text, options, "CUBIN")
        return job.result()

    def ptx(self, text: str, options: list[str]) -> str:
        job = self._process.submit(make_ptx, self._path, text, options)
        return job.result()

    def close(self) -> None:
        self._process.shutdown()


def make_ptx(path: Path, text: str, options: list[str]) -> str:
    """Compiles a text to PTX in this process, which must not load the fake NVRTC."""
    image, _ = _compile(path, text, options, "PTX")
    return image.rstrip(b"\0").decode()


@functools.cache
def _load(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


def _compile(path: Path, text: str, options: list[str], kind: str) -> tuple[bytes, str]:
    library = _load(path)

    def call(name: str, *arguments: object) -> None:
        assert getattr(library, f"nvrtc{name}")(*arguments) == 0, name

    def get(what: str) -> bytes:
        size = ctypes.c_size_t()
        call(f"Get{what}Size", program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        call(f"Get{what}", program, data)
        return data.raw

    program = ctypes.c_void_p()
    source = text.encode()
    call("CreateProgram", ctypes.byref(program), source, b"kernels.cu", 0, None, None)
    encoded = [option.encode() for option in options]
    array = (ctypes.c_char_p * len(encoded))(*encoded)
    failed = library.nvrtcCompileProgram(program, len(encoded), array)
    log = get("ProgramLog").rstrip(b"\0").decode()
    assert not failed, log
    image = get(kind)
    call("DestroyProgram", ctypes.byref(program))
    return image, log
