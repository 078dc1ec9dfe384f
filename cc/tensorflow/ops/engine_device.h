// The engine's name for the device that a kernel runs on.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_
#define IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "cc/engine/backend/arrays.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ios::tf {

// Returns the engine's name for TensorFlow's GPU:0; see below.
std::string FirstGpu();

// Returns "cpu", or a name such as "gpu:1" with CUDA's number for the GPU in
// this process. ",tf32=off" follows if TensorFlow's own switch for TF32 is off
// now. The node's attribute `device` must be kCpu or kGpu and match the type of
// the kernel's device.
absl::StatusOr<std::string> EngineDevice(
    tensorflow::OpKernelConstruction* context);

// Returns an allocator of TensorFlow's memory on that device; null on the CPU.
// TensorFlow has reserved nearly all of a GPU's memory, so the engine allocates
// from it.
DeviceAllocator* EngineAllocator(tensorflow::OpKernelConstruction* context);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_ENGINE_DEVICE_H_
