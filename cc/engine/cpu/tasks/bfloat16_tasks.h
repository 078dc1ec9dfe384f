// Tasks of operators whose tensors are bfloat16. They compute in float32 and
// round each result once.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_BFLOAT16_TASKS_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_BFLOAT16_TASKS_H_

#include <memory>

#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {

// Does the same as CompileTask for operators whose tensors are bfloat16. An
// operator without a bfloat16 kernel gets a task that converts its inputs to
// float32.
StatusOr<std::unique_ptr<Task>> CompileBFloat16Task(const TaskSpec& spec,
                                                    const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_BFLOAT16_TASKS_H_
