// Tasks of operators that have filters: by cuDNN, and by the window kernel
// where channels stay apart.
#ifndef IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_
#define IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_

#include "cc/engine/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/function_task.h"
#include "cc/engine/cuda/kernels/window_kernel.h"

namespace ios::cuda {

// A convolution of any kind; see IsConvolution(). Both are as CompileTask().
TaskOr CompileConvolution(Device* device, bool tf32, const TaskSpec& spec);
TaskOr CompileMatMul(Device* device, bool tf32, const TaskSpec& spec);

// The operator's window and the tensors it slides over; pools have one, too.
WindowSpec WindowOf(const TaskSpec& spec);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CONVOLUTION_TASKS_H_
