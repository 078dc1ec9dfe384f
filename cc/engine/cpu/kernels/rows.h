// The task of a depthwise convolution that goes through its image row by row,
// and computes the rows itself where a 1x1 convolution makes them.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_ROWS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_ROWS_H_

#include <dnnl.hpp>
#include <memory>

#include "cc/engine/backend.h"

namespace ios::cpu {

// Whether there is one for a convolution of an image: it has that algorithm, a
// group for each channel, and windows whose rows fit into caches.
bool GoesByRows(const Operator& op, const Shape& image, const Shape& output);

// For such a convolution; of `spec`'s product, if there is one.
std::unique_ptr<Task> MakeRowsTask(const TaskSpec& spec,
                                   const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_ROWS_H_
