// The NVIDIA libraries, opened at run time: the build links none of them, and a
// machine without them learns which one is missing.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_

#include <cuda.h>
#include <nvrtc.h>

#include <string>

#include "cc/core/status.h"

// cuda.h renames some functions to their newest version ("cuMemAlloc_v2") by
// macros; members and symbols below follow, since their names expand likewise.
#define IOS_CUDA_DRIVER_FUNCTIONS(X) \
  X(cuInit)                          \
  X(cuDriverGetVersion)              \
  X(cuGetErrorName)                  \
  X(cuGetErrorString)                \
  X(cuDeviceGetCount)                \
  X(cuDeviceGet)                     \
  X(cuDeviceGetName)                 \
  X(cuDeviceGetAttribute)            \
  X(cuDevicePrimaryCtxRetain)        \
  X(cuCtxPushCurrent)                \
  X(cuCtxPopCurrent)                 \
  X(cuCtxSynchronize)                \
  X(cuMemAlloc)                      \
  X(cuMemFree)                       \
  X(cuMemcpyHtoD)                    \
  X(cuMemcpyDtoHAsync)               \
  X(cuMemcpyDtoDAsync)               \
  X(cuMemsetD8Async)                 \
  X(cuStreamCreate)                  \
  X(cuStreamDestroy)                 \
  X(cuStreamSynchronize)             \
  X(cuStreamWaitEvent)               \
  X(cuStreamBeginCapture)            \
  X(cuStreamEndCapture)              \
  X(cuEventCreate)                   \
  X(cuEventDestroy)                  \
  X(cuEventRecord)                   \
  X(cuEventQuery)                    \
  X(cuEventSynchronize)              \
  X(cuEventElapsedTime)              \
  X(cuModuleLoadData)                \
  X(cuModuleUnload)                  \
  X(cuModuleGetFunction)             \
  X(cuLaunchKernel)                  \
  X(cuGraphInstantiateWithFlags)     \
  X(cuGraphUpload)                   \
  X(cuGraphLaunch)                   \
  X(cuGraphExecDestroy)              \
  X(cuGraphDestroy)

#define IOS_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)              \
  X(nvrtcGetErrorString)       \
  X(nvrtcCreateProgram)        \
  X(nvrtcDestroyProgram)       \
  X(nvrtcCompileProgram)       \
  X(nvrtcGetProgramLogSize)    \
  X(nvrtcGetProgramLog)        \
  X(nvrtcGetCUBINSize)         \
  X(nvrtcGetCUBIN)

namespace ios::cuda {

#define IOS_CUDA_MEMBER(name) decltype(&::name) name = nullptr;

struct Driver {
  IOS_CUDA_DRIVER_FUNCTIONS(IOS_CUDA_MEMBER)
};

struct Nvrtc {
  IOS_NVRTC_FUNCTIONS(IOS_CUDA_MEMBER)
};

#undef IOS_CUDA_MEMBER

struct Libraries {
  Driver driver;
  Nvrtc nvrtc;
  void* cudnn = nullptr;  // dlopen's handle, for the cuDNN frontend

  // The process's; opened on the first call that finds all of them. The driver
  // is the system's. The others are looked for in the directories that the
  // environment's IOS_TF_CUDA_LIBRARIES lists, separated by colons, and nowhere
  // else if it is set; otherwise what the process has loaded comes first, then
  // the directories that were added, then what the system finds.
  // FailedPrecondition names the library that is missing or too old.
  static StatusOr<const Libraries*> Get();

  // One more directory to look in, behind those that were added before.
  static void AddDirectory(const std::string& directory);
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_
