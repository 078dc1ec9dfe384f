"""Builds the two native libraries with g++ against the installed TensorFlow.

ios_tf/lib/libios_engine.so   cc/core and cc/engine; no TensorFlow
ios_tf/lib/libios_tf_ops.so   cc/tensorflow; loaded by tf.load_op_library
ios_tf/lib/libios_dnnl.so     oneDNN, copied from its wheel under private names
                              (cc/elf.py), so that the package needs only
                              TensorFlow at run time

The environment's CXX, CXXFLAGS and LDFLAGS are respected. MAX_JOBS is the number of
compilers that run at once; its default depends on the cores and the memory. Two builds
of the same sources by the same compiler give the same wheel.
"""

from __future__ import annotations

import concurrent.futures
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "cc"))  # isolated builds do not search cc/

from compilation import Compiler, Library, check_platform, fail, newer  # noqa: E402

check_platform()

from elf import copy_with_private_names  # noqa: E402

# The date of all files in the wheel: the first one that a zip archive can store.
os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")

LIBRARIES = ROOT / "ios_tf" / "lib"
# Patterns of the files in LIBRARIES that belong to the package. Older builds may have
# left other files there.
FILES = ("build.json", "libios_*.so", "licenses/*-LICENSE", "licenses/*-PROGRAMS")
ONEDNN = LIBRARIES / "libios_dnnl.so"

ENGINE_SOURCES = ("cc/core/**/*.cc", "cc/engine/**/*.cc")
OPS_SOURCES = ("cc/tensorflow/**/*.cc",)

# -Wno-psabi: functions with parameters that are wide vectors are called only inside of
# their own file, so their ABI does not matter.
WARNINGS = ["-Wall", "-Wextra", "-Wno-psabi"]

# A precompiled header for the ops' sources, most of which need its headers. Without
# it, half of their compile time would be spent on these headers.
OPS_HEADER = "cc/tensorflow/precompiled.h"

# TensorFlow's wheel ships NVIDIA's headers; the libraries are opened at run time.
CUDA_INCLUDES = (
    "cuda_cudart/include",
    "cuda_nvcc/include",
    "cuda_cccl/libcudacxx/include",
    "cuda_nvrtc/include",
    "cuda_cudnn/include",
    "cudnn_frontend_archive/include",
)
# The directories in which pip installs NVIDIA's libraries, relative to ios_tf/lib.
CUDA_LIBRARIES = (
    "$ORIGIN/../../nvidia/cudnn/lib",
    "$ORIGIN/../../nvidia/cuda_nvrtc/lib",
    "$ORIGIN/../../nvidia/cu13/lib",
)


def installed_file(distribution: str, name: str) -> Path:
    """The path of the file of an installed wheel that ends in `name`."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise fail(
            f"the build needs the wheel {distribution}. Run pip install {distribution}"
        ) from None
    for file in files:
        if ("/" + file.as_posix()).endswith("/" + name):
            return Path(file.locate()).resolve()
    raise fail(
        f"{name} is missing from the wheel {distribution}. Install the wheel again"
    )


def versions() -> list[str]:
    wheels = ("tensorflow", "onednn-cpu-gomp", "nlohmann-json")
    return [f"{wheel}=={wheel_version(wheel)}" for wheel in wheels]


def wheel_version(wheel: str) -> str:
    try:
        return importlib.metadata.version(wheel)
    except importlib.metadata.PackageNotFoundError:
        if wheel == "tensorflow":  # the CPU-only wheel has another name
            return importlib.metadata.version("tensorflow-cpu")
        raise fail(
            f"the build needs the wheel {wheel}. Run pip install {wheel}"
        ) from None


def cuda_flags() -> list[str]:
    package = importlib.util.find_spec("tensorflow")
    if package is None or not package.submodule_search_locations:
        raise fail("the build needs the wheel tensorflow. Run pip install tensorflow")
    root = Path(package.submodule_search_locations[0], "include", "external")
    flags = []
    for directory in CUDA_INCLUDES:
        if not (root / directory).is_dir():
            raise fail(
                f"{root / directory} is missing: the build needs the CUDA headers of "
                "the wheel tensorflow 2.21 (tensorflow-cpu has none)"
            )
        flags.append(f"-isystem{root / directory}")
    # The cuDNN frontend includes cudnn.h as third_party/gpus/cudnn/cudnn.h.
    return [*flags, "-isystemcc"]


def tensorflow_flags() -> tuple[list[str], list[str]]:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    # With -isystem, the compiler prints no warnings about TensorFlow's headers.
    compile_flags = [
        "-isystem" + f[2:] if f.startswith("-I") else f
        for f in tf.sysconfig.get_compile_flags()
    ]
    return compile_flags, tf.sysconfig.get_link_flags()


def copy_onednn() -> None:
    library = installed_file("onednn-cpu-gomp", "libdnnl.so.3")
    if not newer(ONEDNN, [library, ROOT / "cc" / "elf.py"]):
        copy_with_private_names(library, ONEDNN)


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
    # The wheel of TensorFlow has the cuDNN frontend's headers, but not its license as a
    # separate file.
    for own in (ROOT / "cc" / "third_party").glob("*-LICENSE"):
        shutil.copyfile(own, licenses / own.name)


def build() -> None:
    """Builds into ios_tf/lib of the source tree; skips files that are up to date."""
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
    engine = Library(
        compiler,
        LIBRARIES / "libios_engine.so",
        ENGINE_SOURCES,
        [*WARNINGS, *include, *cuda_flags()],
        [
            "-Wl,-soname,libios_engine.so",
            f"-L{LIBRARIES}",
            f"-l:{ONEDNN.name}",
            "-Wl,-z,defs",
            "-lpthread",
            "-ldl",
            "-Wl,-rpath," + ":".join(["$ORIGIN", *CUDA_LIBRARIES]),
        ],
        versions(),
    )
    with concurrent.futures.ThreadPoolExecutor(compiler.jobs) as pool:
        # Some of the engine's sources are compiled while TensorFlow is imported. The
        # other ones are compiled while the ops' header is precompiled.
        pending = engine.compile(pool, engine.changed[: compiler.jobs])
        compile_flags, link_flags = tensorflow_flags()
        ops = Library(
            compiler,
            LIBRARIES / "libios_tf_ops.so",
            OPS_SOURCES,
            [*WARNINGS, *include, *compile_flags],
            [
                "-Wl,-soname,libios_tf_ops.so",
                f"-L{LIBRARIES}",
                "-lios_engine",
                *link_flags,
                "-Wl,-rpath,$ORIGIN:$ORIGIN/../../tensorflow",
            ],
            versions(),
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


def package_files() -> list[Path]:
    """The files of `LIBRARIES` that belong to the package."""
    return sorted(path for pattern in FILES for path in LIBRARIES.glob(pattern))


class BuildNative(build_ext):
    """Builds in the source tree, which an editable install uses as it is."""

    def run(self) -> None:
        build()
        if self.inplace or self.editable_mode:
            return
        for file, target in zip(package_files(), self.get_outputs(), strict=True):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)

    def get_outputs(self) -> list[str]:
        package = Path(self.build_lib) / "ios_tf" / "lib"
        return [str(package / f.relative_to(LIBRARIES)) for f in package_files()]

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Wheel(bdist_wheel):
    """A wheel for all versions of Python, because the libraries do not link to Python.

    ctypes and TensorFlow load the libraries.
    """

    def run(self) -> None:
        # Otherwise, files that an older build has left would become part of the wheel.
        build_lib = self.get_finalized_command("build").build_lib
        shutil.rmtree(build_lib, ignore_errors=True)
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("ios_tf.lib.native", sources=[])],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": Wheel},
)
