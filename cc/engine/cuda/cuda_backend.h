// Backend "gpu": cuDNN's convolutions and our own kernels on CUDA streams.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"

namespace ios::cuda {

// Returns the backend of GPU `ordinal`. The process has one backend per
// ordinal, allocator (null: the driver) and `tf32`. `tf32` allows convolutions
// of float32 to use TF32. Errors: see Device::Get.
StatusOr<Backend*> CudaBackend(int ordinal, bool tf32,
                               DeviceAllocator* allocator);

// Counts how often this process failed to make a CUDA graph and enqueued the
// work kernel by kernel instead.
int64_t FailedCaptures();

// See Libraries::AddDirectory.
void AddLibraryDirectory(const std::string& directory);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_
