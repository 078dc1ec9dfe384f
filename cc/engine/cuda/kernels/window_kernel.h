// Our own kernel that slides a window over each channel of an image: depthwise
// convolution and pooling.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_WINDOW_KERNEL_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_WINDOW_KERNEL_H_

#include <cuda.h>

#include <array>
#include <cstdint>
#include <optional>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"

namespace ios::cuda {

struct WindowSpec {
  enum Kind { kDepthwise, kMaximum, kAverage };
  Kind kind = kDepthwise;
  DataType dtype = DataType::kFloat32;
  TensorView input, output;
  std::array<int64_t, 2> kernel = {1, 1}, strides = {1, 1}, dilations = {1, 1};
  int64_t top = 0, left = 0;  // cells of padding above and left
  bool pads_zeros = false;    // kMaximum: padding counts as zeros
  // For kDepthwise only: output = activation(conv(x) + residual + bias), where
  // x is the input, or relu(input) if `pre_relu`. Output channel c reads input
  // channel c / multiplier.
  int64_t multiplier = 1;
  bool pre_relu = false;
  bool bias = false;
  std::optional<TensorView> residual;
  Activation activation = Activation::kNone;
};

// The device pointers of one execution. They are null for tensors that the spec
// does not have.
struct WindowPointers {
  const void* input = nullptr;
  const void* weights = nullptr;  // [kernel height, width, output channels]
  const void* bias = nullptr;     // [output channels]
  const void* residual = nullptr;
  void* output = nullptr;
};

class WindowKernel {
 public:
  static StatusOr<WindowKernel> Create(const Device* device,
                                       const WindowSpec& spec);
  Status Enqueue(const WindowPointers& pointers, CUstream stream) const;

 private:
  Launch<WindowParams> launch_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_WINDOW_KERNEL_H_
