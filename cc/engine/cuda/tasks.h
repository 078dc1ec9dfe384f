// Compiles operators into tasks of the CUDA backend. cuDNN computes
// convolutions and matrix products; our own kernels compute depthwise
// convolutions and everything else.
#ifndef IOS_TF_CC_ENGINE_CUDA_TASKS_H_
#define IOS_TF_CC_ENGINE_CUDA_TASKS_H_

#include <memory>

#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Compiles one operator into a CudaTask. `tf32` allows convolutions of float32
// to use TF32. The spec's parameters must be CudaParameters of `device`, whose
// context must be current.
StatusOr<std::unique_ptr<Task>> CompileTask(Device* device, bool tf32,
                                            const TaskSpec& spec);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TASKS_H_
