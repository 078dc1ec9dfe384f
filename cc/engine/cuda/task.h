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
  void* scratch = nullptr;       // at least scratch_bytes(), owned by the lane
  CudnnHandle* cudnn = nullptr;  // owned by the caller
};

class CudaTask : public Task {
 public:
  // Enqueues the task's work on the lane's stream. The device's context must be
  // current. The call neither allocates nor synchronises with the host, so that
  // it can be captured into a graph. May be called by several threads at once.
  // Pointers have the alignment of their TensorViews.
  virtual Status Enqueue(const void* const* inputs, void* output,
                         const LaneResources& lane) const = 0;
  virtual int64_t scratch_bytes() const { return 0; }
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TASK_H_
