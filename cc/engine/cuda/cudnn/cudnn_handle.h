// cuDNN handles, which build graphs and enqueue work.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_HANDLE_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_HANDLE_H_

#include <cuda.h>
#include <cudnn.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "cc/core/status.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// A handle has one stream at a time, and internal streams that follow this
// stream.
class CudnnHandle {
 public:
  static StatusOr<std::unique_ptr<CudnnHandle>> Create();

  // Returns the handle for building graphs, which do not depend on a stream.
  cudnnHandle_t get() const { return handle_; }

  // Calls function(handle) while the handle's stream is `stream`.
  Status With(CUstream stream,
              const std::function<Status(cudnnHandle_t)>& function);

 private:
  CudnnHandle() = default;

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
};

// The version of the library that was loaded: 90300 is 9.3.0.
int64_t CudnnVersion(const Device* device);

// Returns a handle for exclusive use until its last pointer is destroyed. Must
// not be called while the thread captures a stream.
StatusOr<std::shared_ptr<CudnnHandle>> TakeCudnnHandle(const Device* device);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_HANDLE_H_
