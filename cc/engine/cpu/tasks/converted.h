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

// Returns a task for `spec` that uses another task of the same operator. The
// arithmetic and the inputs of that inner task have the type `inside`, and its
// output has the type `output`. Tensors of other types are converted in scratch
// memory.
StatusOr<std::unique_ptr<Task>> MakeConvertedTask(const TaskSpec& spec,
                                                  DataType inside,
                                                  DataType output,
                                                  const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_CONVERTED_H_
