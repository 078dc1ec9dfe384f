"""compile_ptx.py SOURCE LIBRARY ARCHITECTURE [-DNAME=VALUE ...]: compiles CUDA kernels
for the fake GPU. NVIDIA's own NVRTC compiles the text to PTX, and `translate` converts
the PTX to C++. The fake NVRTC runs this program if FAKE_NVRTC_COMPILER names it.

With `--figures`, the kernels count how warps access memory. `--revision=TEXT` has no
effect on the result. The fake NVRTC keeps a library for each command, so a new revision
makes it compile again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import nvrtc
from ptx import syntax, translate

GPU = Path(__file__).resolve().parent
PTX = GPU / "ptx"
FAKE = GPU / "fake_cuda"


def command(figures: bool = False) -> str:
    """The value of FAKE_NVRTC_COMPILER with which the fake NVRTC runs this file."""
    parts = [Path(__file__), GPU / "nvrtc.py", FAKE / "host_kernel.h"]
    parts += sorted(PTX.glob("*.*"))
    digest = hashlib.sha256(b"\0".join(part.read_bytes() for part in parts))
    arguments = [sys.executable, __file__, f"--revision={digest.hexdigest()[:16]}"]
    return shlex.join([*arguments, *(["--figures"] if figures else [])])


def compile_text(text: str, architecture: str, macros: list[str]) -> str:
    """The PTX of kernels, with macros such as "-DNAME=VALUE"."""
    library = nvrtc.find()
    if library is None:
        raise SystemExit(f"NVRTC is not installed. Run: {nvrtc.INSTALL}")
    virtual = architecture.replace("sm_", "compute_")
    options = [f"--gpu-architecture={virtual}", "--std=c++17", *macros]
    return nvrtc.make_ptx(library, text, options)


def build(cpp: str, library: str, figures: bool = False) -> None:
    """Compiles C++ of `translate` to a shared object."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    # The compiler must not fuse a product and a sum unless PTX has a fused instruction.
    flags = ["-std=c++17", "-O1", "-w", "-fPIC", "-shared", "-ffp-contract=off"]
    flags += [f"-I{PTX}", f"-I{FAKE}"] + ["-DPTX_FIGURES"] * figures
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "kernels.cc"
        source.write_text(cpp)
        subprocess.run([*compiler, *flags, str(source), "-o", library], check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("library")
    parser.add_argument("architecture")
    parser.add_argument("-D", action="append", dest="macros", default=[])
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--revision")
    arguments = parser.parse_args()
    macros = [f"-D{macro}" for macro in arguments.macros]
    text = Path(arguments.source).read_text()
    ptx = compile_text(text, arguments.architecture, macros)
    cpp = translate.translate(syntax.read(ptx), " ".join(arguments.macros))
    build(cpp, arguments.library, arguments.figures)


if __name__ == "__main__":
    main()
