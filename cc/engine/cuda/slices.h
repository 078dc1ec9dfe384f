// Tasks that copy slices of a tensor's channels.
#ifndef IOS_TF_CC_ENGINE_CUDA_SLICES_H_
#define IOS_TF_CC_ENGINE_CUDA_SLICES_H_

#include <memory>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/function_task.h"

namespace ios::cuda {

// Returns the part of `view` that begins with channel `channel` and has the
// shape `shape`.
TensorView ChannelsOf(const TensorView& view, int64_t channel,
                      const Shape& shape);

TaskOr CompileSlice(const Device* device, const TaskSpec& spec);

// Replaces tasks that copy slices of one tensor, one directly after another, by
// one task that copies all of them: the outputs of a merged convolution then
// need one kernel. Returns the new tasks, which must live as long as `stages`.
StatusOr<std::vector<std::unique_ptr<Task>>> JoinSlices(
    const Device* device, std::vector<BoundStage>* stages);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_SLICES_H_
