// The task of a depthwise convolution that goes through its image row by row.
// If a 1x1 convolution makes the image, the task can compute the image's rows
// itself.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_ROWS_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_ROWS_H_

#include <dnnl.hpp>
#include <memory>

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

// Returns true if MakeRowsTask supports this convolution: it has
// Algorithm::kRows, one group for each channel, and windows whose rows fit into
// caches.
bool UsesRowStreaming(const Operator& op, const Shape& image,
                      const Shape& output);

// Makes the task of a convolution that UsesRowStreaming() accepts. If `spec`
// has a product, the task also computes this 1x1 convolution.
std::unique_ptr<Task> MakeRowsTask(const TaskSpec& spec,
                                   const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_ROWS_H_
