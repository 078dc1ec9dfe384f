// The backend of GPUs: runs cuDNN's convolutions and our own kernels on CUDA
// streams.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"

namespace ios::cuda {

// Returns the backend of GPU number `ordinal`, one object per combination of
// arguments. `tf32` allows convolutions of float32 to use TF32. Memory comes
// from `allocator`, or from the driver if it is null. For errors, see
// Device::Get.
StatusOr<Backend*> CudaBackend(int ordinal, bool tf32,
                               DeviceAllocator* allocator);

// Returns how often this process failed to make a CUDA graph and enqueued the
// kernels one by one instead.
int64_t FailedCaptures();

// Calls Libraries::AddDirectory.
void AddLibraryDirectory(const std::string& directory);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDA_BACKEND_H_
