// Makes tasks from functions, and packs the weights that these functions read.
#ifndef IOS_TF_CC_ENGINE_CUDA_FUNCTION_TASK_H_
#define IOS_TF_CC_ENGINE_CUDA_FUNCTION_TASK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/parameter.h"
#include "cc/engine/cuda/task.h"

namespace ios::cuda {

using TaskOr = StatusOr<std::unique_ptr<Task>>;

// A function that enqueues a task's work, under the rules of
// CudaTask::Enqueue().
using TaskFunction = std::function<Status(
    const void* const* inputs, void* output, const LaneResources& lane)>;

TaskOr MakeTask(TaskFunction function, int64_t scratch_bytes = 0);

// Returns weight number `index` of the operator in `layout`, or null if the
// operator does not have this weight.
StatusOr<std::shared_ptr<const void>> Pack(const TaskSpec& spec, size_t index,
                                           CudaParameter::Layout layout);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_FUNCTION_TASK_H_
