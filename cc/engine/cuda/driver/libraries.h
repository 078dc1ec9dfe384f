// Opens the NVIDIA libraries at run time. The build links none of them. On a
// machine without them, the error names the missing library.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_

#include <cuda.h>
#include <nvrtc.h>

#include <string>

#include "cc/core/status.h"

// Macros of cuda.h rename some functions to their newest version
// ("cuMemAlloc_v2"). The same macros rename the members and symbols below.
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
  X(cuMemcpyHtoDAsync)               \
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

  // Returns the process's libraries, which are opened on the first call that
  // finds all of them. The driver is the system's. The others are searched for
  // only in the directories that $IOS_TF_CUDA_LIBRARIES lists, separated by
  // colons. If this list is empty, the search order is: libraries that the
  // process has loaded, directories that were added, the system's search path.
  // FailedPrecondition names the library that is missing or too old.
  static StatusOr<const Libraries*> Get();

  // Adds a directory to search, after those that were added before.
  static void AddDirectory(const std::string& directory);
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_
