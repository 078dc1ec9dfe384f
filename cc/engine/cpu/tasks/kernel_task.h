// The task of an operator that our own kernels (kernels/) compute directly.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_KERNEL_TASK_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_KERNEL_TASK_H_

#include <memory>

#include "cc/engine/backend/backend.h"

namespace ios::cpu {

std::unique_ptr<Task> MakeKernelTask(const TaskSpec& spec);

// A window pool in bfloat16.
std::unique_ptr<Task> MakePoolTask(const TaskSpec& spec);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_KERNEL_TASK_H_
