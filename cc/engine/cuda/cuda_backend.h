// Backend "gpu": cuDNN's convolutions and kernels of our own on CUDA streams.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"
#include "cc/engine/backend.h"

namespace ios::cuda {

// The backend of GPU `ordinal`, one for the process, each allocator (null: the
// driver) and each value of `tf32`: whether convolutions of float32 may use
// TF32. Errors: see Device::Get.
StatusOr<Backend*> CudaBackend(int ordinal, bool tf32,
                               DeviceAllocator* allocator);

// How many times a CUDA graph could not be made, and work was enqueued kernel
// by kernel, in this process.
int64_t FailedCaptures();

// Libraries::AddDirectory.
void AddLibraryDirectory(const std::string& directory);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_
