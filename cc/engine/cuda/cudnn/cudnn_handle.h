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

// A cuDNN handle. It enqueues work on one stream at a time, and on internal
// streams that are synchronised with it.
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

// Returns the version of the loaded library, for example 90300 for 9.3.0.
int64_t CudnnVersion(const Device* device);

// Returns a handle that only the caller uses until the last pointer to it is
// destroyed. Must not be called while the thread captures a stream.
StatusOr<std::shared_ptr<CudnnHandle>> TakeCudnnHandle(const Device* device);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_HANDLE_H_
