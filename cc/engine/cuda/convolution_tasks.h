// Compiles operators that have filters: with cuDNN, or with the window kernel
// for depthwise convolutions.
#ifndef IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_
#define IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_

#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/function_task.h"
#include "cc/engine/cuda/kernels/window_kernel.h"

namespace ios::cuda {

// Compile a convolution (see IsConvolution()) or a matrix product. Arguments
// and result are those of CompileTask().
TaskOr CompileConvolution(Device* device, bool tf32, const TaskSpec& spec);
TaskOr CompileMatMul(Device* device, bool tf32, const TaskSpec& spec);

// Returns the operator's window and the tensors that it slides over. Pools have
// a window, too.
WindowSpec WindowOf(const TaskSpec& spec);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_
