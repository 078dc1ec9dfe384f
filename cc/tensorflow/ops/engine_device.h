// The device a kernel runs on, as the engine calls it.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_
#define IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "cc/engine/arrays.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ios::tf {

// The GPU that TensorFlow calls GPU:0, as the engine calls it; see below.
std::string FirstGpu();

// "cpu"; or "gpu:1", the number as CUDA counts GPUs in this process, with
// ",tf32=off" where TensorFlow's own switch for TF32 is off now. The kernel's
// attribute `device` must be kCpu or kGpu, whichever it is.
absl::StatusOr<std::string> EngineDevice(
    tensorflow::OpKernelConstruction* context);

// TensorFlow's memory of that device; null on the CPU. It has taken nearly all
// of a GPU's memory, and the engine's comes from there.
DeviceAllocator* EngineAllocator(tensorflow::OpKernelConstruction* context);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_
