"""Builds the two native libraries with g++ against the installed TensorFlow.

ios_tf/lib/libios_engine.so   cc/core and cc/engine; no TensorFlow
ios_tf/lib/libios_tf_ops.so   cc/tensorflow; what tf.load_op_library loads
ios_tf/lib/libdnnl.so.3       oneDNN, copied from its wheel: the package needs
                              nothing beside TensorFlow at run time
The environment's CXX, CXXFLAGS and LDFLAGS are respected, MAX_JOBS limits the
number of compilers that run at once.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
LIBRARIES = ROOT / "ios_tf" / "lib"
OBJECTS = ROOT / "build" / "native"

ENGINE_SOURCES = ("cc/core/**/*.cc", "cc/engine/**/*.cc")
OPS_SOURCES = ("cc/tensorflow/**/*.cc",)
# Kernels compute; optimising the rest would take longer than it ever saves.
KERNELS = ROOT / "cc" / "engine" / "cpu"
FLAGS = ["-std=c++17", "-fPIC", "-DNDEBUG", "-D_GLIBCXX_USE_CXX11_ABI=1"]
# Nobody reads errno or floating-point exceptions: loops vectorise without them.
FLAGS += ["-fno-math-errno", "-fno-trapping-math"]

# Vectors wider than the baseline's are passed between functions of one file only.
WARNINGS = ["-Wall", "-Wextra", "-Wno-psabi"]

# Most of the ops' sources include it: half of the time they take to compile.
OPS_HEADER = "cc/tensorflow/precompiled.h"
# Precompiling pays for more units than these.
FEW_UNITS = 2

# TensorFlow's wheel ships NVIDIA's headers; the libraries are opened at run time.
CUDA_INCLUDES = (
    "cuda_cudart/include",
    "cuda_nvcc/include",
    "cuda_cccl/libcudacxx/include",
    "cuda_nvrtc/include",
    "cuda_cudnn/include",
    "cudnn_frontend_archive/include",
)
# Pip installs those libraries there, seen from ios_tf/lib.
CUDA_LIBRARIES = (
    "$ORIGIN/../../nvidia/cudnn/lib",
    "$ORIGIN/../../nvidia/cuda_nvrtc/lib",
    "$ORIGIN/../../nvidia/cu13/lib",
)


def fail(message: str) -> SystemExit:
    return SystemExit(f"ios_tf: {message}")


def installed_file(distribution: str, name: str) -> Path:
    """The path of the file of an installed wheel that ends in `name`."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise fail(f"the build needs the wheel {distribution}: install it") from None
    for file in files:
        if ("/" + file.as_posix()).endswith("/" + name):
            return Path(file.locate()).resolve()
    raise fail(f"{name} is missing from the wheel {distribution}: reinstall it")


def newer(target: Path, sources: list[Path]) -> bool:
    """Whether `target` exists and is newer than all of `sources`."""
    if not target.exists():
        return False
    built = target.stat().st_mtime
    return all(s.exists() and s.stat().st_mtime <= built for s in sources)


class Compiler:
    """g++, and what has already been compiled with the same flags."""

    def __init__(self) -> None:
        self.command = shlex.split(os.environ.get("CXX", "g++"))
        if not self.command or not shutil.which(self.command[0]):
            raise fail(
                "no C++ compiler: install g++ (Debian: apt-get install g++) or set CXX"
            )
        self.flags = shlex.split(os.environ.get("CXXFLAGS", ""))
        self.link_flags = shlex.split(os.environ.get("LDFLAGS", ""))
        jobs = os.environ.get("MAX_JOBS", "")
        self.jobs = int(jobs) if jobs.isdigit() and int(jobs) else 2

    def run(self, arguments: list[str], what: str) -> None:
        done = subprocess.run(
            [*self.command, *arguments],
            cwd=ROOT,
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            print(done.stdout, flush=True)
            raise fail(f"{what} failed: see the compiler's messages above")

    def compile(self, unit: Unit, directory: Path, flags: list[str]) -> None:
        target = unit.object(directory)
        print(f"compiling {unit.name}", flush=True)
        outputs = [unit.level, "-MMD", "-MF", str(target.with_suffix(".d"))]
        outputs += ["-o", str(target), "-c", unit.written(directory)]
        self.run([*FLAGS, *flags, *self.flags, *outputs], f"compiling {unit.name}")


@dataclasses.dataclass(frozen=True)
class Unit:
    """Sources that are compiled as one: most of the time goes into headers that all of
    a folder include, and into templates that all of it use."""

    name: str
    sources: tuple[Path, ...]

    @classmethod
    def all_of(cls, sources: list[Path]) -> list[Unit]:
        """One for each folder; kernels, which take long by themselves, are alone."""
        folders = collections.defaultdict(list)
        for source in sources:
            alone = source.parent == KERNELS / "kernels"
            folders[source if alone else source.parent].append(source)
        units = [
            cls(folder.relative_to(ROOT).as_posix(), tuple(members))
            for folder, members in folders.items()
        ]
        # The largest first, so that no core waits for one of them in the end.
        return sorted(units, key=lambda unit: -unit.size())

    @property
    def level(self) -> str:
        """Kernels are optimised; the rest would take longer than it ever saves."""
        return "-O3" if KERNELS in self.sources[0].parents else "-O1"

    def size(self) -> int:
        return sum(source.stat().st_size for source in self.sources)

    def object(self, directory: Path) -> Path:
        return directory / (self.name.replace("/", "_").removesuffix(".cc") + ".o")

    def written(self, directory: Path) -> str:
        """The path of a source that includes all of them."""
        path = self.object(directory).with_suffix(".cc")
        text = "".join(
            f'#include "{source.relative_to(ROOT).as_posix()}"\n'
            for source in self.sources
        )
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return path.relative_to(ROOT).as_posix()

    def is_compiled(self, directory: Path) -> bool:
        target = self.object(directory)
        dependencies = target.with_suffix(".d")
        if not dependencies.exists():
            return False
        names = dependencies.read_text().replace("\\\n", " ").split()[1:]
        # Headers outside are of wheels, whose versions are in the stamp.
        own = {ROOT / name for name in names if name.startswith("cc/")}
        return own >= set(self.sources) and newer(target, list(own))


class Library:
    """ios_tf/lib/`name`, of sources and of libraries that `link` names."""

    def __init__(
        self,
        compiler: Compiler,
        name: str,
        patterns: tuple[str, ...],
        flags: list[str],
        link: list[str],
    ) -> None:
        every = sorted(s for p in patterns for s in ROOT.glob(p))
        sources = [s for s in every if not s.name.endswith("_test.cc")]
        if not sources:
            raise fail(f"no sources for {name}: {' '.join(patterns)}")
        self._compiler = compiler
        self._name = name
        self._flags = flags
        self._link = link
        self._units = Unit.all_of(sources)
        self._directory = OBJECTS / name
        self._directory.mkdir(parents=True, exist_ok=True)
        # Include directories differ from one isolated build to the next, their
        # versions do not: the stamp names those.
        self._stamp = self._directory / "flags"
        named = [f for f in flags if not f.startswith("-isystem")]
        own = [*compiler.command, *FLAGS, *named, *compiler.flags, *compiler.link_flags]
        text = shlex.join([*own, *versions()])
        if not self._stamp.exists() or self._stamp.read_text() != text:
            for old in self._directory.glob("*.o"):
                old.unlink()
            self._stamp.write_text(text)
        self.changed = [u for u in self._units if not u.is_compiled(self._directory)]

    def compile(
        self, pool: Executor, units: Iterable[Unit], extra_flags: Sequence[str] = ()
    ) -> list[Future[None]]:
        """Has the pool compile what changed, or some of it."""
        flags = [*self._flags, *extra_flags]
        return [
            pool.submit(self._compiler.compile, unit, self._directory, flags)
            for unit in units
        ]

    @contextlib.contextmanager
    def precompiled(
        self, header: str, pool: Executor
    ) -> Iterator[Callable[[], list[str]]]:
        """Has the pool compile the header; gives a function that waits for it, and
        returns the flags that include it. Removes its hundreds of MB."""
        if len(self.changed) <= FEW_UNITS:
            yield list
            return
        # Beside the header itself, in case the compiler does not take it.
        copy = self._directory / Path(header).name
        target = copy.with_name(copy.name + ".gch")
        shutil.copyfile(ROOT / header, copy)
        print(f"compiling {header}", flush=True)
        outputs = ["-O1", "-x", "c++-header", header, "-o", str(target)]
        command = [*FLAGS, *self._flags, *self._compiler.flags, *outputs]
        done = pool.submit(self._compiler.run, command, f"compiling {header}")

        def flags() -> list[str]:
            done.result()
            return [f"-I{self._directory}", "-include", copy.name]

        try:
            yield flags
        finally:
            concurrent.futures.wait([done])
            target.unlink(missing_ok=True)

    def link(self) -> None:
        """Links what is compiled, if any of it is new."""
        objects = [unit.object(self._directory) for unit in self._units]
        for old in self._directory.iterdir():
            if (
                old.suffix in (".o", ".d", ".cc")
                and old.with_suffix(".o") not in objects
            ):
                old.unlink()
        target = LIBRARIES / self._name
        if newer(target, [*objects, self._stamp]):
            return
        # Renamed: a process may be running with the old one.
        fresh = target.with_name(self._name + ".tmp")
        inputs = [str(o) for o in objects]
        self._compiler.run(
            ["-shared", "-o", str(fresh), *inputs, *self._link]
            + self._compiler.link_flags,
            f"linking {self._name}",
        )
        fresh.replace(target)


def versions() -> list[str]:
    wheels = ("tensorflow", "onednn-cpu-gomp", "nlohmann-json")
    return [f"{wheel}=={wheel_version(wheel)}" for wheel in wheels]


def wheel_version(wheel: str) -> str:
    try:
        return importlib.metadata.version(wheel)
    except importlib.metadata.PackageNotFoundError:
        if wheel == "tensorflow":  # the CPU-only wheel goes by another name
            return importlib.metadata.version("tensorflow-cpu")
        raise fail(f"the build needs the wheel {wheel}: install it") from None


def cuda_flags() -> list[str]:
    package = importlib.util.find_spec("tensorflow")
    if package is None or not package.submodule_search_locations:
        raise fail("the build needs the wheel tensorflow: install it")
    root = Path(package.submodule_search_locations[0], "include", "external")
    flags = []
    for directory in CUDA_INCLUDES:
        if not (root / directory).is_dir():
            raise fail(
                f"{root / directory} is missing: the build needs the CUDA headers of "
                "the wheel tensorflow 2.21 (tensorflow-cpu has none)"
            )
        flags.append(f"-isystem{root / directory}")
    # For the frontend's name of cudnn.h.
    return [*flags, "-isystemcc"]


def tensorflow_flags() -> tuple[list[str], list[str]]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    # -isystem: TensorFlow's headers may warn, ours may not.
    compile_flags = [
        "-isystem" + f[2:] if f.startswith("-I") else f
        for f in tf.sysconfig.get_compile_flags()
    ]
    return compile_flags, tf.sysconfig.get_link_flags()


def copy_onednn() -> None:
    wheel = "onednn-cpu-gomp"
    library = installed_file(wheel, "libdnnl.so.3")
    target = LIBRARIES / library.name
    if not newer(target, [library]) or target.stat().st_size != library.stat().st_size:
        fresh = target.with_name(target.name + ".tmp")
        shutil.copyfile(library, fresh)
        fresh.replace(target)


def copy_licenses() -> None:
    licenses = LIBRARIES / "licenses"
    licenses.mkdir(exist_ok=True)
    for distribution, name, copy in (
        ("onednn-cpu-gomp", "onednn/LICENSE", "onednn-LICENSE"),
        (
            "onednn-cpu-gomp",
            "onednn/THIRD-PARTY-PROGRAMS",
            "onednn-THIRD-PARTY-PROGRAMS",
        ),
        ("nlohmann-json", "licenses/LICENSE", "nlohmann-json-LICENSE"),
    ):
        shutil.copyfile(installed_file(distribution, name), licenses / copy)
    # TensorFlow's wheel has the headers, with the license in each, but not alone.
    for own in (ROOT / "cc" / "third_party").glob("*-LICENSE"):
        shutil.copyfile(own, licenses / own.name)


def build() -> None:
    """Builds into ios_tf/lib of the source tree; what is up to date stays."""
    compiler = Compiler()
    LIBRARIES.mkdir(exist_ok=True)
    copy_onednn()
    copy_licenses()
    json_header = installed_file("nlohmann-json", "include/nlohmann/json.hpp")
    dnnl_header = installed_file(
        "onednn-devel-cpu-gomp", "include/oneapi/dnnl/dnnl.hpp"
    )
    include = [
        "-I.",
        f"-isystem{json_header.parents[1]}",
        f"-isystem{dnnl_header.parents[2]}",
    ]
    # libdnnl was linked against libgomp; the engine brings entry points of its
    # own, which must come first. So: no -fopenmp, no -lgomp, default visibility.
    engine = Library(
        compiler,
        "libios_engine.so",
        ENGINE_SOURCES,
        [*WARNINGS, *include, *cuda_flags()],
        [
            "-Wl,-soname,libios_engine.so",
            f"-L{LIBRARIES}",
            "-l:libdnnl.so.3",
            "-lpthread",
            "-ldl",
            "-Wl,-rpath," + ":".join(["$ORIGIN", *CUDA_LIBRARIES]),
        ],
    )
    with concurrent.futures.ThreadPoolExecutor(compiler.jobs) as pool:
        # While TensorFlow is imported; the rest while its headers are compiled.
        pending = engine.compile(pool, engine.changed[: compiler.jobs])
        compile_flags, link_flags = tensorflow_flags()
        ops = Library(
            compiler,
            "libios_tf_ops.so",
            OPS_SOURCES,
            [*WARNINGS, *include, *compile_flags],
            [
                "-Wl,-soname,libios_tf_ops.so",
                f"-L{LIBRARIES}",
                "-lios_engine",
                *link_flags,
                "-Wl,-rpath,$ORIGIN:$ORIGIN/../../tensorflow",
            ],
        )
        with ops.precompiled(OPS_HEADER, pool) as header_flags:
            pending += engine.compile(pool, engine.changed[compiler.jobs :])
            pending += ops.compile(pool, ops.changed, header_flags())
            for one in pending:
                one.result()
    engine.link()
    ops.link()
    (LIBRARIES / "build.json").write_text(
        json.dumps({"tensorflow": wheel_version("tensorflow")}) + "\n"
    )


class BuildNative(build_ext):
    """Builds in the source tree, which an editable install uses as it is."""

    def run(self) -> None:
        build()
        if not (self.inplace or self.editable_mode):
            target = Path(self.build_lib) / "ios_tf" / "lib"
            shutil.copytree(LIBRARIES, target, dirs_exist_ok=True)

    def get_outputs(self) -> list[str]:
        return [
            str(Path(self.build_lib) / "ios_tf" / "lib" / f.relative_to(LIBRARIES))
            for f in LIBRARIES.rglob("*")
            if f.is_file()
        ]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


setup(
    ext_modules=[Extension("ios_tf.lib.native", sources=[])],
    cmdclass={"build_ext": BuildNative},
)
