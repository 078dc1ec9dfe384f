// The task of a bfloat16 operator that has no bfloat16 kernel.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_WIDENED_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_WIDENED_H_

#include <memory>

#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {

// Returns a task that converts its inputs to float32, computes the operator in
// float32, and rounds the result to bfloat16. See CompileTask.
StatusOr<std::unique_ptr<Task>> MakeWidenedTask(const TaskSpec& spec,
                                                const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_WIDENED_H_
