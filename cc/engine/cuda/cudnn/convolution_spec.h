// ConvolutionSpec: everything that defines a convolution, except its weights.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_SPEC_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_SPEC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/engine/backend/backend.h"

namespace ios::cuda {

// y = activation(conv(x) + residual + bias). All views have four dimensions,
// NHWC. A matrix product is a convolution of 1x1 images.
struct ConvolutionSpec {
  DataType dtype = DataType::kFloat32;
  bool tf32 = true;  // float32 may be rounded to TF32 before it is multiplied
  TensorView input;
  TensorView output;
  std::array<int64_t, 2> kernel = {1, 1};
  std::array<int64_t, 2> strides = {1, 1};
  std::array<int64_t, 2> dilations = {1, 1};
  std::array<int64_t, 4> padding = {0, 0, 0, 0};  // top, bottom, left, right
  int64_t groups = 1;
  // Whether this is a transposed convolution: then a convolution with this
  // kernel, strides, dilations and padding maps the output's shape to the
  // input's. A transposed convolution has neither groups nor a residual.
  bool transposed = false;
  bool bias = false;
  std::optional<TensorView> residual;
  Activation activation = Activation::kNone;
};

// Describes the spec on one line. Different specs have different descriptions.
std::string ToString(const ConvolutionSpec& spec);

// Returns the view of the filter: [filters, height, width, channels / groups],
// or [channels, height, width, filters] if the convolution is transposed.
TensorView FilterView(const ConvolutionSpec& spec);

// Returns the alignment in bytes of a view's first element. It is at most 16,
// since no kernel reads or writes more at a time.
int64_t AlignmentBytes(const TensorView& view, DataType dtype);

// Returns whether a view's elements are contiguous and aligned for the widest
// access.
bool IsDense(const TensorView& view, DataType dtype);

// Returns the number of bytes from the start of a view's first element to the
// end of its last element, including gaps between pixels.
int64_t SpanBytes(const TensorView& view, DataType dtype);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_SPEC_H_
