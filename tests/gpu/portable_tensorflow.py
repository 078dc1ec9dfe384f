"""portable_tensorflow.py DIRECTORY: packs TensorFlow for a machine that has a GPU, but
no TensorFlow.

The program packs Python, TensorFlow and this checkout into chunk.1, chunk.2, ... of a
limited size. It removes the symbols of TensorFlow's libraries, and the code for all GPU
architectures except one. On the other machine, run `sh unpack.sh TARGET` in the
directory of the chunks. It unpacks the chunks, and writes TARGET/env.sh, which sets the
environment:

    . TARGET/env.sh
    cd TARGET/checkout
    $PYTHON -m benchmarks gpu_day --steps=tensorflow,models

TensorFlow loads CUDA 12's libraries by name. unpack.sh makes links with these names to
the libraries that the other machine's `python3` has (pip's packages `nvidia`), of CUDA
12 or newer. CUDA's runtime is packed. This program has not been tried on a GPU.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
_PROJECT = "ios_tf"
_TESTS = ("pytest", "pytest-xdist")
# Packages that TensorFlow requires, but does not need to run.
_UNUSED = {"grpcio", "libclang", "setuptools", "tensorboard", "wheel"}
_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|tests|testdata|include|idlelib|ensurepip|tkinter|turtledemo"
    r"|lib2to3|site-packages|config-[^/]*)(/|$)"
    r"|^tensorflow/(xla_aot_runtime_src/|THIRD_PARTY)"
    r"|/(_xla_ops|stablehlo_extension)\.so$|\.(a|h|pyi)$|_test\.py$"
)
_STRIPPED = re.compile(r"libtensorflow_(cc|framework)\.so|_pywrap_profiler_plugin\.so")
_UNPACK = """#!/bin/sh
# unpack.sh TARGET: unpacks the chunks beside this file, and writes TARGET/env.sh.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
target=$(cd "$1" && pwd)
cat $(ls "$here"/chunk.* | sort -t. -k2 -n) | xz -dc -T0 | tar xf - -C "$target"
nvidia=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])')
link() {
  found=$(ls "$nvidia"/*/lib/"$1"* 2> /dev/null | sort | head -1)
  if [ -n "$found" ]; then ln -sf "$found" "$target/lib/$2"; else echo "no $1"; fi
}
link libcublas.so. libcublas.so.12
link libcublasLt.so. libcublasLt.so.12
link libcudnn.so.9 libcudnn.so.9
link libcufft.so. libcufft.so.11
link libcupti.so. libcupti.so.12
link libcurand.so. libcurand.so.10
link libcusolver.so. libcusolver.so.11
link libcusparse.so. libcusparse.so.12
link libnvJitLink.so. libnvJitLink.so.12
link libnccl.so. libnccl.so.2
directories=$(ls -d "$nvidia"/*/lib | tr '\\n' ':')
cat > "$target/env.sh" << END
export PYTHON=$target/python/bin/python3
export PYTHONHOME=$target/python PYTHONPATH=$target/site:$target/checkout
export LD_LIBRARY_PATH=$target/python/lib:$target/lib:$directories$LD_LIBRARY_PATH
END
. "$target/env.sh"
"$PYTHON" -m compileall -q -j 0 "$target/site" > /dev/null || true
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--architecture", type=int, default=90, metavar="NN")
    parser.add_argument("--chunk_mib", type=int, default=54, metavar="N")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ios_tf_") as directory:
        tree = Path(directory)
        _add_python(tree / "python")
        _add_packages(tree / "site", options.architecture)
        _add_cuda_runtime(tree / "lib")
        _add_checkout(tree / "checkout")
        count = _pack(tree, options.directory, options.chunk_mib << 20)
    (options.directory / "unpack.sh").write_text(_UNPACK)
    print(f"{count} chunks in {options.directory}")
    return 0


def _add_python(target: Path) -> None:
    """Adds the interpreter and its standard library."""
    base = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    _copy(base / "bin" / version, target / "bin" / "python3")
    for library in base.glob("lib/libpython*.so*"):
        _copy(library, target / "lib" / library.name)
    standard = Path(sysconfig.get_path("stdlib"))
    for path in standard.rglob("*"):
        name = path.relative_to(standard)
        if (
            path.is_file()
            and not _LEFT_OUT.search(f"{name}")
            and name.parts[0] != "test"
        ):
            _copy(path, target / "lib" / version / name)


def _add_packages(target: Path, architecture: int) -> None:
    """Adds TensorFlow, and the packages that it, this project and its tests need."""
    for distribution in _needed():
        for file in distribution.files or ():
            source = Path(str(file.locate()))
            if (
                ".." in file.parts
                or not source.is_file()
                or _LEFT_OUT.search(f"{file}")
            ):
                continue
            copy = target / str(file)
            _copy(source, copy)
            if _STRIPPED.search(copy.name):
                subprocess.run(["strip", "--strip-all", str(copy)], check=True)
                keep_architecture(copy, architecture)


def _needed() -> Iterator[importlib.metadata.Distribution]:
    """The installed distributions that the project and its tests need, recursively."""
    waiting, seen = [*_TESTS, *_requirements(_PROJECT)], set(_UNUSED) | {_PROJECT}
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        waiting += _requirements(name)
        yield importlib.metadata.distribution(name)


def _requirements(name: str) -> list[str]:
    """The names of the distributions that a distribution requires, without extras."""
    texts = importlib.metadata.distribution(name).requires or ()
    found = [Requirement(text) for text in texts]
    return [
        one.name
        for one in found
        if not one.marker or one.marker.evaluate({"extra": ""})
    ]


def _add_cuda_runtime(target: Path) -> None:
    """Adds CUDA's runtime of the version that TensorFlow is built for."""
    import tensorflow as tf

    version = tf.sysconfig.get_build_info()["cuda_version"]
    major, minor, _ = version.split(".")
    with tempfile.TemporaryDirectory() as directory:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--target",
        ]
        wanted = f"nvidia-cuda-runtime-cu{major}=={major}.{minor}.*"
        subprocess.run([*command, directory, wanted], check=True)
        (library,) = Path(directory).rglob(f"libcudart.so.{major}")
        _copy(library, target / library.name)


def _add_checkout(target: Path) -> None:
    """Adds the files that git does not ignore, and the built libraries."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.splitlines()
    built = [str(path.relative_to(ROOT)) for path in ROOT.glob("ios_tf/lib/*.*")]
    for name in [*listed, *built]:
        if not name.startswith("docs/pictures/"):
            _copy(ROOT / name, target / name)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    shutil.copymode(source, target)


def keep_architecture(library: Path, architecture: int) -> int:
    """Sets the GPU code for other architectures in a library to zeros.

    Returns:
      The bytes of code that are left.
    """
    sections = subprocess.run(
        ["readelf", "-SW", str(library)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    section = re.search(r" \.nv_fatbin +\S+ +\S+ +(\S+) +(\S+)", sections)
    if section is None:
        return 0
    offset, size = (int(number, 16) for number in section.groups())
    with open(library, "r+b") as file:
        file.seek(offset)
        code = bytearray(file.read(size))
        kept = blank_others(code, architecture)
        file.seek(offset)
        file.write(code)
    return kept


# The header of a fat binary: magic number, version, bytes of the header, bytes of the
# entries.
_FAT_BINARY = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
# The header of an entry in a fat binary: kind, version, bytes of the header, bytes of
# the code, 12 other bytes, and the architecture.
_ENTRY = struct.Struct("<HHIQ12xI")
_MACHINE_CODE = 2


def blank_others(code: bytearray, architecture: int) -> int:
    """Sets the code of fat binaries to zeros, except machine code of an architecture.

    Returns:
      The bytes of code that are left.
    """
    kept = position = 0
    while position + _FAT_BINARY.size <= len(code):
        magic, _, header, size = _FAT_BINARY.unpack_from(code, position)
        if magic != _MAGIC:
            position += 8
            continue
        entry = position + header
        end = entry + size
        while entry < end:
            kind, _, header, size, found = _ENTRY.unpack_from(code, entry)
            begin = entry + header
            entry = begin + size
            if (kind, found) == (_MACHINE_CODE, architecture):
                kept += size
            else:
                code[begin:entry] = bytes(size)
        position = -(-end // 8) * 8
    return kept


def _pack(tree: Path, directory: Path, chunk_bytes: int) -> int:
    """Writes the chunks; returns their number."""
    for old in directory.glob("chunk.*"):
        old.unlink()
    tar = subprocess.Popen(["tar", "cf", "-", "."], cwd=tree, stdout=subprocess.PIPE)
    # A thread decompresses each block.
    options = ["--x86", "--lzma2=preset=6,dict=64MiB", "-T0", "--block-size=128MiB"]
    xz = subprocess.Popen(["xz", *options], stdin=tar.stdout, stdout=subprocess.PIPE)
    assert xz.stdout is not None
    count = 0
    while chunk := xz.stdout.read(chunk_bytes):
        count += 1
        (directory / f"chunk.{count}").write_bytes(chunk)
    if tar.wait() or xz.wait():
        raise SystemExit("the files cannot be packed")
    return count


if __name__ == "__main__":
    sys.exit(main())
