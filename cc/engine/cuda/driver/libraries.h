// Opens NVIDIA's libraries at run time. The build links none of them, so that
// the engine also loads on machines without them. An error names the missing
// library.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_

#include <cuda.h>
#include <nvrtc.h>

#include <string>

#include "cc/core/status.h"

// Macros of cuda.h rename some functions to their newest version (for example,
// "cuMemAlloc_v2"), and thus also the members and symbols below.
#define IOS_CUDA_DRIVER_FUNCTIONS(X) \
  X(cuInit)                          \
  X(cuDriverGetVersion)              \
  X(cuGetErrorName)                  \
  X(cuGetErrorString)                \
  X(cuDeviceGetCount)                \
  X(cuDeviceGet)                     \
  X(cuDeviceGetName)                 \
  X(cuDeviceGetAttribute)            \
  X(cuDeviceTotalMem)                \
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
  X(nvrtcGetNumSupportedArchs) \
  X(nvrtcGetSupportedArchs)    \
  X(nvrtcGetErrorString)       \
  X(nvrtcCreateProgram)        \
  X(nvrtcDestroyProgram)       \
  X(nvrtcCompileProgram)       \
  X(nvrtcGetProgramLogSize)    \
  X(nvrtcGetProgramLog)        \
  X(nvrtcGetCUBINSize)         \
  X(nvrtcGetCUBIN)             \
  X(nvrtcGetPTXSize)           \
  X(nvrtcGetPTX)

namespace ios::cuda {

#define IOS_CUDA_MEMBER(name) decltype(&::name) name = nullptr;

struct Driver {
  IOS_CUDA_DRIVER_FUNCTIONS(IOS_CUDA_MEMBER)
};

struct Nvrtc {
  IOS_NVRTC_FUNCTIONS(IOS_CUDA_MEMBER)
};

#undef IOS_CUDA_MEMBER

// Marks ranges for NVIDIA's profilers. Null without libnvToolsExt, which
// nothing else needs.
struct Nvtx {
  int (*push)(const char* name) = nullptr;  // nvtxRangePushA
  int (*pop)() = nullptr;                   // nvtxRangePop
};

struct Libraries {
  Driver driver;
  Nvrtc nvrtc;
  Nvtx nvtx;
  void* cudnn = nullptr;  // dlopen's handle, for the cuDNN frontend

  // Returns the libraries, which are opened by the first call that finds all of
  // them. The driver comes from the system's search path. If the variable
  // $IOS_TF_CUDA_LIBRARIES is set, the other libraries come only from the
  // directories that it lists, separated by colons. Otherwise each library
  // comes from the first of these places that has it:
  // 1. libraries that the process has already loaded
  // 2. directories that were added by AddDirectory()
  // 3. the system's search path.
  // If a library is missing or too old, returns FailedPrecondition with the
  // name of the library.
  static StatusOr<const Libraries*> Get();

  // Adds a directory to search, after those that were added before.
  static void AddDirectory(const std::string& directory);
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_LIBRARIES_H_
