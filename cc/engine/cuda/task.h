// Tasks of the CUDA backend: one compiled operator each.
#ifndef IOS_TF_CC_ENGINE_CUDA_TASK_H_
#define IOS_TF_CC_ENGINE_CUDA_TASK_H_

#include <cuda.h>

#include <cstdint>

#include "cc/core/status.h"
#include "cc/engine/backend.h"

namespace ios::cuda {

class CudnnHandle;

// Resources of the lane that a task runs on.
struct LaneResources {
  CUstream stream = nullptr;
  void* scratch = nullptr;       // of at least scratch_bytes(), the lane's own
  CudnnHandle* cudnn = nullptr;  // the caller's
};

class CudaTask : public Task {
 public:
  // Enqueues the task's work on the lane's stream, in the device's context,
  // which is current; no synchronisation with the host and no allocation, so
  // that it can be captured into a graph. May be called by several threads at
  // once. Pointers are aligned as their TensorViews say.
  virtual Status Enqueue(const void* const* inputs, void* output,
                         const LaneResources& lane) const = 0;
  virtual int64_t scratch_bytes() const { return 0; }
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TASK_H_
