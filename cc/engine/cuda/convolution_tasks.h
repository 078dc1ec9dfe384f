// Compiles operators that have filters: with cuDNN, or with the window kernel
// for depthwise convolutions.
#ifndef IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_
#define IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_

#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/function_task.h"
#include "cc/engine/cuda/kernels/window_kernel.h"

namespace ios::cuda {

// Compile a convolution (an operator for which IsConvolution() is true) or a
// matrix product, with the arguments and the result of CompileTask().
TaskOr CompileConvolution(Device* device, bool tf32, const TaskSpec& spec);
TaskOr CompileMatMul(Device* device, bool tf32, const TaskSpec& spec);

// Returns the window of an operator (a depthwise convolution or a pool) and the
// tensors over which it slides.
WindowSpec WindowOf(const TaskSpec& spec);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_
