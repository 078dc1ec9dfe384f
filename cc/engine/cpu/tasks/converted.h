// A task that converts its tensors to the data types of its kernel.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_CONVERTED_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_CONVERTED_H_

#include <memory>

#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {

// Returns whether all inputs have the type `inputs`, and the output has the
// type `output`.
bool HasTypes(const TaskSpec& spec, DataType inputs, DataType output);

// Returns a task for `spec` that runs a task for the same operator whose
// arithmetic and inputs have the type `inside`, and whose output has the type
// `output`. The task copies tensors of other types to or from scratch memory.
StatusOr<std::unique_ptr<Task>> MakeConvertedTask(const TaskSpec& spec,
                                                  DataType inside,
                                                  DataType output,
                                                  const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_CONVERTED_H_
