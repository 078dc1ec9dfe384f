"""Compiles C++ sources into shared libraries with g++. setup.py uses this module.

All sources of a component (usually a folder) are compiled as one unit. Units are
compiled in parallel, and only if they have changed since the last build.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OBJECTS = ROOT / "build" / "native"

# Only the sources in this folder get full optimization. Elsewhere, the longer
# compilation would cost more time than faster code saves.
KERNELS = ROOT / "cc" / "engine" / "cpu"
FLAGS = ["-std=c++17", "-fPIC", "-DNDEBUG", "-D_GLIBCXX_USE_CXX11_ABI=1"]
# The code does not read errno or floating-point exceptions. With these flags, the
# compiler can vectorise loops that would otherwise have to set them.
FLAGS += ["-fno-math-errno", "-fno-trapping-math"]

# Without these flags, the addresses of a kernel's loops depend on all functions before
# it. SSE2 code of matrix products took up to 17 % longer at unlucky addresses (Zen 5).
ALIGNMENT = ["-falign-functions=64", "-falign-loops=32"]

# The memory in bytes that is reserved for each compiler. Even the largest sources
# (those of the plugin for TensorFlow) need less.
MEMORY_PER_COMPILER = 2 << 30

# The header is precompiled only if more units than this must be compiled.
FEW_UNITS = 2


def fail(message: str) -> SystemExit:
    return SystemExit(f"ios_tf: {message}")


def check_platform() -> None:
    """Ends the build, with one sentence, on platforms that are not supported."""
    machine = f"{platform.system()} on {platform.machine()}"
    if machine != "Linux on x86_64":
        raise fail(f"the package supports Linux on x86_64 only, but this is {machine}")
    if platform.libc_ver()[0] != "glibc":
        raise fail(
            "the package and TensorFlow need glibc, but this Python uses another C "
            "library (Alpine Linux has musl). Use a system with glibc, such as Debian"
        )


def _default_jobs() -> int:
    """The number of compilers that the cores and the free memory allow."""
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):  # a quota of processor time
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))
    available = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                available = [int(line.split()[1]) << 10]
    with contextlib.suppress(OSError, ValueError):  # a limit of a container
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        available.append(limit - used)
    return max(1, min(cores, min(available) // MEMORY_PER_COMPILER))


def _path_map(include: str) -> str:
    """Returns the flag that replaces the path of a header directory by "include" in
    the library's strings, such as __FILE__.
    """
    return f"-ffile-prefix-map={include.removeprefix('-isystem')}=include"


def newer(target: Path, sources: list[Path]) -> bool:
    """Whether `target` exists and is newer than all of `sources`."""
    if not target.exists():
        return False
    built = target.stat().st_mtime
    return all(s.exists() and s.stat().st_mtime <= built for s in sources)


class Compiler:
    """Runs the C++ compiler that the environment variables CXX, CXXFLAGS, LDFLAGS and
    MAX_JOBS configure.
    """

    def __init__(self) -> None:
        self.command = shlex.split(os.environ.get("CXX", "g++"))
        if not self.command or not shutil.which(self.command[0]):
            raise fail(
                "no C++ compiler was found. Install g++ (Debian: apt-get install "
                "g++), or set CXX to the name of a compiler"
            )
        self.flags = shlex.split(os.environ.get("CXXFLAGS", ""))
        self.link_flags = shlex.split(os.environ.get("LDFLAGS", ""))
        jobs = os.environ.get("MAX_JOBS", "")
        self.jobs = int(jobs) if jobs.isdigit() and int(jobs) else _default_jobs()

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
            raise fail(f"{what} failed. See the compiler's messages above")

    def compile(self, unit: Unit, directory: Path, flags: list[str]) -> None:
        target = unit.object(directory)
        print(f"compiling {unit.name}", flush=True)
        outputs = [*unit.optimization, "-MMD", "-MF", str(target.with_suffix(".d"))]
        outputs += ["-o", str(target), "-c", unit.written(directory)]
        self.run([*FLAGS, *flags, *self.flags, *outputs], f"compiling {unit.name}")


def _component(source: Path) -> Path:
    """Returns the folder whose sources are compiled together with `source`, for example
    cc/core or cc/engine/cuda. Sources in its subfolders may belong to it, too.
    """
    folders = source.relative_to(ROOT).parts[:-1]
    return ROOT.joinpath(*folders[: 2 if folders[1] == "core" else 3])


@dataclasses.dataclass(frozen=True)
class Unit:
    """Sources that are compiled as one. This saves time, because the sources of a
    folder include the same headers and instantiate the same templates.
    """

    name: str
    sources: tuple[Path, ...]

    @classmethod
    def all_of(cls, sources: list[Path]) -> list[Unit]:
        """Returns one unit per component. Each source in kernels/ is a unit of its own,
        because its compilation takes long.
        """
        folders = collections.defaultdict(list)
        for source in sources:
            alone = source.parent == KERNELS / "kernels"
            folders[source if alone else _component(source)].append(source)
        units = [
            cls(folder.relative_to(ROOT).as_posix(), tuple(members))
            for folder, members in folders.items()
        ]
        # The largest units come first. Otherwise one core might still compile a large
        # unit when all other cores have finished.
        return sorted(units, key=lambda unit: -unit.size())

    @property
    def optimization(self) -> list[str]:
        """The optimization flags for this unit (see KERNELS)."""
        is_kernel = KERNELS in self.sources[0].parents
        return ["-O3", *ALIGNMENT] if is_kernel else ["-O1"]

    def size(self) -> int:
        return sum(source.stat().st_size for source in self.sources)

    def object(self, directory: Path) -> Path:
        return directory / (self.name.replace("/", "_").removesuffix(".cc") + ".o")

    def written(self, directory: Path) -> str:
        """Writes a source that includes all sources of the unit. Returns its path."""
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
        # All other headers belong to wheels. A change of a wheel's version is found
        # by the stamp of Library.
        own = {ROOT / name for name in names if name.startswith("cc/")}
        return own >= set(self.sources) and newer(target, list(own))


class Library:
    """A shared library, which is compiled from sources and linked with libraries."""

    def __init__(
        self,
        compiler: Compiler,
        target: Path,
        patterns: tuple[str, ...],
        flags: list[str],
        link: list[str],
        versions: list[str],
    ) -> None:
        """`versions`: the versions of the packages whose headers are included. If a
        version changes, all units are compiled again.
        """
        every = sorted(s for p in patterns for s in ROOT.glob(p))
        sources = [s for s in every if not s.name.endswith("_test.cc")]
        if not sources:
            raise fail(f"no sources for {target.name}: {' '.join(patterns)}")
        self._compiler = compiler
        self._target = target
        self._link = link
        self._units = Unit.all_of(sources)
        self._directory = OBJECTS / target.name
        self._directory.mkdir(parents=True, exist_ok=True)
        # The stamp has the versions of the included packages instead of their
        # directories, because each isolated build has other directories.
        self._stamp = self._directory / "flags"
        named = [f for f in flags if not f.startswith("-isystem")]
        # Messages in headers contain the paths of the headers. The paths are replaced,
        # so builds in different directories give the same library.
        included = [f for f in flags if f.startswith("-isystem/")]
        self._flags = [*flags, *map(_path_map, included)]
        own = [*compiler.command, *FLAGS, *named, *compiler.flags, *compiler.link_flags]
        text = shlex.join([*own, *versions])
        if not self._stamp.exists() or self._stamp.read_text() != text:
            for old in self._directory.glob("*.o"):
                old.unlink()
            self._stamp.write_text(text)
        self.changed = [u for u in self._units if not u.is_compiled(self._directory)]

    def compile(
        self, pool: Executor, units: Iterable[Unit], extra_flags: Sequence[str] = ()
    ) -> list[Future[None]]:
        """Submits the compilation of these units to the pool."""
        flags = [*self._flags, *extra_flags]
        return [
            pool.submit(self._compiler.compile, unit, self._directory, flags)
            for unit in units
        ]

    @contextlib.contextmanager
    def precompiled(
        self, header: str, pool: Executor
    ) -> Iterator[Callable[[], list[str]]]:
        """Precompiles the header in the pool. The context value is a function that
        waits for the precompiled header and returns the flags that include it. At the
        end of the context, the precompiled header is deleted, because it takes hundreds
        of MB. If few units have changed, nothing is precompiled and there are no flags.
        """
        if len(self.changed) <= FEW_UNITS:
            yield list
            return
        # A copy of the header lies next to the precompiled header. If the compiler
        # rejects the precompiled header, it includes the copy.
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
        """Links the library if an object is newer. Removes files of dropped units."""
        objects = [unit.object(self._directory) for unit in self._units]
        for old in self._directory.iterdir():
            if (
                old.suffix in (".o", ".d", ".cc")
                and old.with_suffix(".o") not in objects
            ):
                old.unlink()
        target = self._target
        if newer(target, [*objects, self._stamp]):
            return
        # The library is linked under a temporary name and then renamed, because a
        # running process may use the old library.
        fresh = target.with_name(target.name + ".tmp")
        inputs = [str(o) for o in objects]
        self._compiler.run(
            ["-shared", "-o", str(fresh), *inputs, *self._link]
            + self._compiler.link_flags,
            f"linking {target.name}",
        )
        fresh.replace(target)
