"""The installed wheels as a repository: TensorFlow, CUDA headers, oneDNN, JSON."""

_LOCATE = """
import importlib.metadata as metadata, importlib.util, pathlib
def find(wheel, name):
    for file in metadata.files(wheel):
        if ("/" + file.as_posix()).endswith("/" + name):
            return pathlib.Path(file.locate()).resolve()
    raise SystemExit(wheel + " has no " + name)
tensorflow = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
print(tensorflow)
print(find("onednn-cpu-gomp", "libdnnl.so.3"))
print(find("onednn-devel-cpu-gomp", "include/oneapi/dnnl/dnnl.hpp").parents[2])
print(find("nlohmann-json", "include/nlohmann/json.hpp").parents[1])
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

exports_files(["libios_dnnl.so"])

cc_import(
    name = "onednn_library",
    shared_library = "libios_dnnl.so",
)

cc_library(
    name = "onednn",
    hdrs = glob(["onednn/**"]),
    includes = ["onednn"],
    deps = [":onednn_library"],
)

cc_library(
    name = "json",
    hdrs = glob(["json/nlohmann/**/*.hpp"]),
    includes = ["json"],
)

# Headers only: the libraries are opened at run time.
cc_library(
    name = "cuda",
    hdrs = glob(["cuda/**"]),
    includes = [
        "cuda/cudart",
        "cuda/nvcc",
        "cuda/cccl",
        "cuda/nvrtc",
        "cuda/cudnn",
        "cuda/cudnn_frontend",
    ],
)

"""

# Thousands of headers: named by directory, not one by one.
_WHEEL_TENSORFLOW = """
cc_library(
    name = "tensorflow",
    hdrs = glob(["tensorflow_include/**"]),
    includes = ["tensorflow_include"],
    # The ABI of the wheel. A source build chooses its own, as TensorFlow Serving does.
    defines = [
        "EIGEN_MAX_ALIGN_BYTES=64",
        "_GLIBCXX_USE_CXX11_ABI=1",
    ],
    deps = [":tensorflow_framework"],
)

cc_import(
    name = "tensorflow_framework",
    shared_library = "libtensorflow_framework.so.2",
)

cc_import(
    name = "tensorflow_cc_library",
    shared_library = "libtensorflow_cc.so.2",
)

# With TensorFlow's own ops and kernels: for programs, which have no Python.
cc_library(
    name = "tensorflow_cc",
    deps = [
        ":tensorflow",
        ":tensorflow_cc_library",
    ],
    linkopts = ["-Wl,--no-as-needed"],
)
"""

# A build that has TensorFlow's sources, such as TensorFlow Serving's.
_SOURCE_TENSORFLOW = """
cc_library(
    name = "tensorflow",
    deps = %s,
)
"""

_CUDA = {
    "cudart": "cuda_cudart/include",
    "nvcc": "cuda_nvcc/include",
    "cccl": "cuda_cccl/libcudacxx/include",
    "nvrtc": "cuda_nvrtc/include",
    "cudnn": "cuda_cudnn/include",
    "cudnn_frontend": "cudnn_frontend_archive/include",
}

def _installed_wheels(context):
    python = context.os.environ.get("PYTHON") or context.which("python3")
    result = context.execute([python, "-c", _LOCATE])
    if result.return_code:
        fail("%s lacks a wheel that WORKSPACE names: %s" % (python, result.stderr))
    tensorflow, dnnl, onednn_include, json_include = result.stdout.splitlines()
    if context.attr.tensorflow:
        targets = [str(label) for label in context.attr.tensorflow]
        build = _BUILD + _SOURCE_TENSORFLOW % repr(targets)
    else:
        build = _BUILD + _WHEEL_TENSORFLOW
        for library in ["libtensorflow_framework.so.2", "libtensorflow_cc.so.2"]:
            context.symlink(tensorflow + "/" + library, library)
        context.symlink(tensorflow + "/include", "tensorflow_include")
    for name, path in _CUDA.items():
        context.symlink(tensorflow + "/include/external/" + path, "cuda/" + name)
    # The copy has unique names, so the loader cannot use TensorFlow's oneDNN instead.
    elf = context.path(Label("//cc:elf.py"))
    copied = context.execute([python, elf, dnnl, "libios_dnnl.so"])
    if copied.return_code:
        fail("%s cannot copy oneDNN: %s" % (python, copied.stderr))
    for name in ["dnnl.h", "dnnl.hpp", "oneapi"]:
        context.symlink(onednn_include + "/" + name, "onednn/" + name)
    context.symlink(json_include + "/nlohmann", "json/nlohmann")
    context.file("BUILD", build)

installed_wheels = repository_rule(
    doc = "The wheels; `tensorflow`: targets to build against in place of its wheel.",
    implementation = _installed_wheels,
    attrs = {"tensorflow": attr.label_list()},
    environ = ["PYTHON"],
    local = True,
)
