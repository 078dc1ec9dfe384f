// A task of the CUDA backend: one compiled operator.
#ifndef IOS_TF_CC_ENGINE_CUDA_TASK_H_
#define IOS_TF_CC_ENGINE_CUDA_TASK_H_

#include <cstdint>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/cudnn/lane_resources.h"

namespace ios::cuda {

class CudaTask : public Task {
 public:
  // Enqueues the task's work on the lane's stream. The device's context must be
  // current. The call neither allocates memory nor waits for the GPU, so that
  // it can be captured into a CUDA graph. Thread-safe. The pointers have the
  // alignment of their TensorViews.
  virtual Status Enqueue(const void* const* inputs, void* output,
                         const LaneResources& lane) const = 0;
  virtual int64_t scratch_bytes() const { return 0; }
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TASK_H_
