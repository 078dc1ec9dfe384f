// Makes tasks (compiled operators) that compute a convolution with Winograd's
// minimal filtering, an algorithm with fewer multiplications.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_WINOGRAD_TASK_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_WINOGRAD_TASK_H_

#include <memory>

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/onednn/onednn.h"

namespace ios::cpu {

// Makes the task, whose tensors may be pitched. The current thread must lead a
// lane with as many threads as the task will have.
std::unique_ptr<Task> MakeWinogradTask(const TaskSpec& spec,
                                       const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_WINOGRAD_TASK_H_
