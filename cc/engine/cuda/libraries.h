// The NVIDIA libraries, opened at run time: the build links none of them, and a
// machine without them learns which one is missing.
#ifndef IOS_TF_CC_ENGINE_CUDA_LIBRARIES_H_
#define IOS_TF_CC_ENGINE_CUDA_LIBRARIES_H_

#include <cuda.h>
#include <nvrtc.h>

#include "cc/core/status.h"

// cuda.h renames some functions to their newest version ("cuMemAlloc_v2") by
// macros; members and symbols below follow, since their names expand likewise.
#define IOS_CUDA_DRIVER_FUNCTIONS(X)                                         \
  X(cuInit)                                                                  \
  X(cuDriverGetVersion)                                                      \
  X(cuGetErrorName)                                                          \
  X(cuGetErrorString)                                                        \
  X(cuDeviceGetCount)                                                        \
  X(cuDeviceGet)                                                             \
  X(cuDeviceGetName)                                                         \
  X(cuDeviceGetAttribute)                                                    \
  X(cuDevicePrimaryCtxRetain)                                                \
  X(cuCtxPushCurrent)                                                        \
  X(cuCtxPopCurrent)                                                         \
  X(cuCtxSynchronize)                                                        \
  X(cuMemAlloc)                                                              \
  X(cuMemFree)                                                               \
  X(cuMemcpyHtoD)                                                            \
  X(cuMemcpyDtoHAsync)                                                       \
  X(cuMemcpyDtoDAsync)                                                       \
  X(cuStreamCreate)                                                          \
  X(cuStreamDestroy)                                                         \
  X(cuStreamSynchronize)                                                     \
  X(cuStreamWaitEvent)                                                       \
  X(cuStreamBeginCapture)                                                    \
  X(cuStreamEndCapture)                                                      \
  X(cuEventCreate)                                                           \
  X(cuEventDestroy)                                                          \
  X(cuEventRecord)                                                           \
  X(cuEventQuery)                                                            \
  X(cuEventSynchronize)                                                      \
  X(cuEventElapsedTime)                                                      \
  X(cuModuleLoadData)                                                        \
  X(cuModuleUnload)                                                          \
  X(cuModuleGetFunction)                                                     \
  X(cuLaunchKernel)                                                          \
  X(cuGraphInstantiateWithFlags)                                             \
  X(cuGraphLaunch)                                                           \
  X(cuGraphExecDestroy)                                                      \
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

  // The process's; opened on the first call, from the directory that the
  // environment's IOS_TF_CUDA_LIBRARIES names if it is set. FailedPrecondition
  // names the library that is missing or too old.
  static StatusOr<const Libraries*> Get();
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_LIBRARIES_H_
