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

exports_files(["libdnnl.so.3"])

cc_import(
    name = "onednn_library",
    shared_library = "libdnnl.so.3",
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

cc_import(
    name = "tensorflow_framework",
    shared_library = "libtensorflow_framework.so.2",
)

# Thousands of headers: named by directory, not one by one.
cc_library(
    name = "tensorflow",
    hdrs = glob(["tensorflow_include/**"]),
    includes = ["tensorflow_include"],
    defines = ["EIGEN_MAX_ALIGN_BYTES=64"],
    deps = [":tensorflow_framework"],
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
    framework = "libtensorflow_framework.so.2"
    context.symlink(tensorflow + "/" + framework, framework)
    context.symlink(tensorflow + "/include", "tensorflow_include")
    for name, path in _CUDA.items():
        context.symlink(tensorflow + "/include/external/" + path, "cuda/" + name)
    context.symlink(dnnl, "libdnnl.so.3")
    for name in ["dnnl.h", "dnnl.hpp", "oneapi"]:
        context.symlink(onednn_include + "/" + name, "onednn/" + name)
    context.symlink(json_include + "/nlohmann", "json/nlohmann")
    context.file("BUILD", _BUILD)

installed_wheels = repository_rule(
    implementation = _installed_wheels,
    environ = ["PYTHON"],
    local = True,
)
