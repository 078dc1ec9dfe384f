// The engine's name for the device that a kernel runs on.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_
#define IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "cc/engine/backend/arrays.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ios::tf {

// Returns the engine's name for TensorFlow's GPU:0, in the form of
// EngineDevice().
std::string FirstGpu();

// Returns "cpu", or a name such as "gpu:1" with the number that CUDA has for
// the GPU in this process. If TensorFlow's switch for TF32 is off now,
// ",tf32=off" is appended. The node's attribute `device` must be kCpu or kGpu
// and match the type of the kernel's device. On the CPU, the engine then uses
// no more threads than TensorFlow's device gives its own kernels
// (intra_op_parallelism_threads).
absl::StatusOr<std::string> EngineDevice(
    tensorflow::OpKernelConstruction* context);

// Returns TensorFlow's allocator for the kernel's GPU, or null on the CPU. The
// engine must use it, because TensorFlow has reserved nearly all memory of the
// GPU.
DeviceAllocator* EngineAllocator(tensorflow::OpKernelConstruction* context);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_
