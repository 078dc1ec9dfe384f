#include "cc/engine/cuda/libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace ios::cuda {
namespace {

// What the cuDNN frontend looks up when it needs it, and throws without.
constexpr const char* kCudnnFunctions[] = {
    "cudnnGetVersion",
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnSetStream",
    "cudnnGetErrorString",
    "cudnnGetLastErrorString",
    "cudnnBackendCreateDescriptor",
    "cudnnBackendDestroyDescriptor",
    "cudnnBackendSetAttribute",
    "cudnnBackendGetAttribute",
    "cudnnBackendFinalize",
    "cudnnBackendExecute",
};

// Opens the first of `names` that is there.
StatusOr<void*> Open(const std::vector<std::string>& names,
                     const std::string& what_to_do) {
  const char* directory = std::getenv("IOS_TF_CUDA_LIBRARIES");
  std::string why;
  for (const std::string& name : names) {
    const std::string path =
        directory && *directory ? std::string(directory) + "/" + name : name;
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
    if (why.empty()) why = dlerror();
  }
  return FailedPrecondition("cannot load " + names[0] + " (" + why + "): " +
                            what_to_do);
}

template <typename Function>
Status Find(void* library, const char* library_name, const char* name,
            Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function) return Status();
  return FailedPrecondition(std::string(library_name) + " has no " + name +
                            ": it is too old");
}

#define IOS_STRING_(name) #name
#define IOS_STRING(name) IOS_STRING_(name)

StatusOr<Libraries> OpenAll() {
  Libraries libraries;
  IOS_ASSIGN_OR_RETURN(void* const driver,
                       Open({"libcuda.so.1"}, "install the NVIDIA driver"));
#define IOS_FIND(name)                                                      \
  IOS_RETURN_IF_ERROR(Find(driver, "libcuda.so.1", IOS_STRING(name),        \
                           &libraries.driver.name));
  IOS_CUDA_DRIVER_FUNCTIONS(IOS_FIND)
#undef IOS_FIND
  IOS_ASSIGN_OR_RETURN(
      void* const nvrtc,
      Open({"libnvrtc.so.12", "libnvrtc.so.13"},
           "install NVRTC 12 or 13, for instance with "
           "pip install 'tensorflow[and-cuda]'"));
#define IOS_FIND(name)                                        \
  IOS_RETURN_IF_ERROR(Find(nvrtc, "NVRTC", IOS_STRING(name),  \
                           &libraries.nvrtc.name));
  IOS_NVRTC_FUNCTIONS(IOS_FIND)
#undef IOS_FIND
  IOS_ASSIGN_OR_RETURN(libraries.cudnn,
                       Open({"libcudnn.so.9"},
                            "install cuDNN 9, for instance with "
                            "pip install 'tensorflow[and-cuda]'"));
  for (const char* name : kCudnnFunctions) {
    void* function = nullptr;
    IOS_RETURN_IF_ERROR(Find(libraries.cudnn, "cuDNN", name, &function));
  }
  return libraries;
}

}  // namespace

StatusOr<const Libraries*> Libraries::Get() {
  static const auto* opened = new StatusOr<Libraries>(OpenAll());
  if (!opened->ok()) return opened->status();
  return &**opened;
}

}  // namespace ios::cuda
