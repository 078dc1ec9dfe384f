// Compiles operators into tasks of the CUDA backend: convolutions by cuDNN,
// everything else by kernels of our own.
#ifndef IOS_TF_CC_ENGINE_CUDA_TASKS_H_
#define IOS_TF_CC_ENGINE_CUDA_TASKS_H_

#include <memory>

#include "cc/core/status.h"
#include "cc/engine/backend.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// A CudaTask. `tf32`: whether convolutions of float32 may use TF32. Parameters
// are CudaParameters of this device, whose context is current.
StatusOr<std::unique_ptr<Task>> CompileTask(Device* device, bool tf32,
                                            const TaskSpec& spec);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TASKS_H_
