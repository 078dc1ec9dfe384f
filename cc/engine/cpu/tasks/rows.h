// The task of a depthwise convolution that is computed row by row. If a 1x1
// convolution computes its input, and does not have Algorithm::kGemm, the task
// can compute the rows of that convolution itself, when they are needed.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_ROWS_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_ROWS_H_

#include <memory>

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/onednn/onednn.h"

namespace ios::cpu {

// Returns true if MakeRowsTask supports this convolution: Algorithm::kRows may
// compute it, it has one group for each channel, and the rows of its windows
// fit into caches.
bool CanStreamRows(const Operator& op, const Shape& image, const Shape& output);

// Returns true if, in addition, the convolution has Algorithm::kRows.
bool UsesRowStreaming(const Operator& op, const Shape& image,
                      const Shape& output);

// Makes the task of a convolution that CanStreamRows() accepts. If the task
// absorbs a 1x1 convolution (see TaskSpec), it also computes that convolution.
std::unique_ptr<Task> MakeRowsTask(const TaskSpec& spec,
                                   const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_ROWS_H_
