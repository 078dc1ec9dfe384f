// The task that resizes images, by nearest-neighbour or bilinear interpolation.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_RESIZE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_RESIZE_H_

#include <memory>

#include "cc/engine/cpu/tasks.h"

namespace ios::cpu {

std::unique_ptr<Task> MakeResizeTask(const TaskSpec& spec);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_RESIZE_H_
