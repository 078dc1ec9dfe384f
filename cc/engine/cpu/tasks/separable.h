// The task of a separable convolution.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_SEPARABLE_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_SEPARABLE_H_

#include <memory>

#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {

std::unique_ptr<Task> MakeSepConvTask(const TaskSpec& spec,
                                      const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_SEPARABLE_H_
