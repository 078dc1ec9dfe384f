// The task of a bfloat16 convolution or MatMul.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_BFLOAT16_PRODUCT_TASK_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_BFLOAT16_PRODUCT_TASK_H_

#include <memory>

#include "cc/engine/cpu/kernels/bfloat16_product.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {

// Returns the weight as `product` reads it.
std::shared_ptr<const BFloat16> PackedFilter(const BFloat16Product& product,
                                             CpuParameter* filter);

// Returns the task of a Conv2D without groups or of a MatMul. Inputs are
// bfloat16, and the output is bfloat16 or float32.
std::unique_ptr<Task> MakeBFloat16ProductTask(const TaskSpec& spec,
                                              const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_BFLOAT16_PRODUCT_TASK_H_
