#include "cc/engine/cuda/driver/libraries.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ios::cuda {
namespace {

// The functions of cuDNN that must exist. The frontend looks them up when it
// needs them, and throws if a function is missing.
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

// The state of Libraries::Get() and AddDirectory(); never freed.
struct Process {
  std::mutex mutex;
  const Libraries* opened = nullptr;
  std::vector<std::string> directories;  // added by AddDirectory()
};

Process& TheProcess() {
  static auto* const process = new Process;
  return *process;
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ':');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// The arguments of one dlopen() call. The first attempt that works is used.
struct Attempt {
  std::string path;
  int flags = RTLD_NOW | RTLD_LOCAL;
};

std::vector<Attempt> AttemptsFor(const std::vector<std::string>& names,
                                 const std::vector<std::string>& added) {
  const char* const listed = std::getenv("IOS_TF_CUDA_LIBRARIES");
  const std::vector<std::string> only = Split(listed ? listed : "");
  std::vector<Attempt> attempts;
  if (only.empty()) {
    // A library that is already loaded (for example TensorFlow's) comes first,
    // because two versions of it in one process would mix.
    for (const std::string& name : names) {
      attempts.push_back({name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD});
    }
  }
  for (const std::string& name : names) {
    for (const std::string& directory : only.empty() ? added : only) {
      attempts.push_back({directory + "/" + name});
    }
  }
  if (only.empty()) {
    for (const std::string& name : names) attempts.push_back({name});
  }
  return attempts;
}

StatusOr<void*> Open(const std::string& what,
                     const std::vector<Attempt>& attempts,
                     const std::string& what_to_do) {
  std::string why;
  for (const Attempt& attempt : attempts) {
    if (void* library = dlopen(attempt.path.c_str(), attempt.flags)) {
      return library;
    }
    // Chooses the error to report: that of a file that exists but cannot be
    // loaded, or else the first one. With RTLD_NOLOAD, an error only says that
    // the library is not loaded yet.
    const char* const error = dlerror();
    if ((attempt.flags & RTLD_NOLOAD) || !error) continue;
    if (why.empty() || (access(attempt.path.c_str(), F_OK) == 0)) why = error;
  }
  return FailedPrecondition("cannot load " + what + " (" + why + "). " +
                            what_to_do);
}

template <typename Function>
Status Find(void* library, const char* library_name, const char* name,
            Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function) return Status();
  return FailedPrecondition(
      std::string(library_name) + " has no function " + name +
      ": the library is too old. Install a newer version");
}

// The oldest compute capability (times 10) that NVRTC 13 compiles for.
constexpr int kOldestOfNvrtc13 = 75;

// Returns whether the machine has a GPU that is too old for NVRTC 13.
bool HasOldGpu(const Driver& driver) {
  int count = 0;
  if (driver.cuInit(0) != CUDA_SUCCESS ||
      driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) {
    return false;
  }
  for (int i = 0; i < count; ++i) {
    CUdevice device;
    int major = 0, minor = 0;
    if (driver.cuDeviceGet(&device, i) == CUDA_SUCCESS &&
        driver.cuDeviceGetAttribute(
            &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ==
            CUDA_SUCCESS &&
        driver.cuDeviceGetAttribute(
            &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) ==
            CUDA_SUCCESS &&
        10 * major + minor < kOldestOfNvrtc13) {
      return true;
    }
  }
  return false;
}

// Returns the names of NVRTC's library, the best one first. A driver can load
// code that was compiled by an NVRTC of the driver's major version or an older
// one. NVRTC 13 does not know the oldest GPUs.
std::vector<std::string> NvrtcNames(const Driver& driver) {
  int version = 0;
  const bool known = driver.cuDriverGetVersion(&version) == CUDA_SUCCESS;
  if (known && version < 13000) return {"libnvrtc.so.12"};
  if (HasOldGpu(driver)) return {"libnvrtc.so.12", "libnvrtc.so.13"};
  return {"libnvrtc.so.13", "libnvrtc.so.12"};
}

Nvtx OpenNvtx(const std::vector<std::string>& added) {
  Nvtx nvtx;
  for (const Attempt& attempt : AttemptsFor({"libnvToolsExt.so.1"}, added)) {
    void* const library = dlopen(attempt.path.c_str(), attempt.flags);
    if (!library) continue;
    const auto push = dlsym(library, "nvtxRangePushA");
    const auto pop = dlsym(library, "nvtxRangePop");
    if (push && pop) {
      nvtx.push = reinterpret_cast<decltype(nvtx.push)>(push);
      nvtx.pop = reinterpret_cast<decltype(nvtx.pop)>(pop);
    }
    break;
  }
  return nvtx;
}

#define IOS_STRING_(name) #name
#define IOS_STRING(name) IOS_STRING_(name)

StatusOr<Libraries> OpenAll(const std::vector<std::string>& added) {
  Libraries libraries;
  IOS_ASSIGN_OR_RETURN(
      void* const driver,
      Open("libcuda.so.1", {{"libcuda.so.1"}}, "Install the NVIDIA driver"));
#define IOS_FIND(name) \
  IOS_RETURN_IF_ERROR( \
      Find(driver, "libcuda.so.1", IOS_STRING(name), &libraries.driver.name));
  IOS_CUDA_DRIVER_FUNCTIONS(IOS_FIND)
#undef IOS_FIND
  IOS_ASSIGN_OR_RETURN(void* const nvrtc,
                       Open("libnvrtc.so.12 or libnvrtc.so.13",
                            AttemptsFor(NvrtcNames(libraries.driver), added),
                            "Install NVRTC 12 or 13, for instance with "
                            "pip install 'tensorflow[and-cuda]'"));
#define IOS_FIND(name) \
  IOS_RETURN_IF_ERROR( \
      Find(nvrtc, "NVRTC", IOS_STRING(name), &libraries.nvrtc.name));
  IOS_NVRTC_FUNCTIONS(IOS_FIND)
#undef IOS_FIND
  IOS_ASSIGN_OR_RETURN(
      libraries.cudnn,
      Open("libcudnn.so.9", AttemptsFor({"libcudnn.so.9"}, added),
           "Install cuDNN 9, for instance with "
           "pip install 'tensorflow[and-cuda]'"));
  for (const char* name : kCudnnFunctions) {
    void* function = nullptr;
    IOS_RETURN_IF_ERROR(Find(libraries.cudnn, "cuDNN", name, &function));
  }
  libraries.nvtx = OpenNvtx(added);
  return libraries;
}

}  // namespace

StatusOr<const Libraries*> Libraries::Get() {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  if (!process.opened) {
    IOS_ASSIGN_OR_RETURN(Libraries opened, OpenAll(process.directories));
    process.opened = new Libraries(std::move(opened));
  }
  return process.opened;
}

void Libraries::AddDirectory(const std::string& directory) {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  std::vector<std::string>& known = process.directories;
  if (std::find(known.begin(), known.end(), directory) == known.end()) {
    known.push_back(directory);
  }
}

}  // namespace ios::cuda
