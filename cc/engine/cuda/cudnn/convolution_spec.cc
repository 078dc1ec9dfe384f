#include "cc/engine/cuda/cudnn/convolution_spec.h"

#include <algorithm>

#include "cc/engine/backend/arrays.h"

namespace ios::cuda {
namespace {

template <typename Numbers>
std::string Join(const Numbers& numbers) {
  std::string text;
  for (int64_t number : numbers) {
    if (!text.empty()) text += "x";
    text += std::to_string(number);
  }
  return text;
}

std::string ViewToString(const TensorView& view, DataType dtype) {
  std::string text = Join(view.shape);
  if (!view.dense()) text += " of pitch " + std::to_string(view.pitch);
  const int64_t alignment = AlignmentBytes(view, dtype);
  if (alignment < kDeviceAlignment) {
    text += " aligned to " + std::to_string(alignment);
  }
  return text;
}

}  // namespace

std::string ToString(const ConvolutionSpec& spec) {
  std::string text = ios::ToString(spec.dtype);
  if (spec.dtype == DataType::kFloat32 && spec.tf32) text += " (TF32)";
  if (spec.transposed) text += " transposed";
  text += " convolution of " + ViewToString(spec.input, spec.dtype) + " to " +
          ViewToString(spec.output, spec.dtype) + ", kernel " +
          Join(spec.kernel) + ", strides " + Join(spec.strides) +
          ", dilations " + Join(spec.dilations) + ", padding " +
          Join(spec.padding) + ", groups " + std::to_string(spec.groups);
  if (spec.bias) text += ", bias";
  if (spec.residual) {
    text += ", residual " + ViewToString(*spec.residual, spec.dtype);
  }
  if (spec.activation != Activation::kNone) {
    text += std::string(", ") + ios::ToString(spec.activation);
  }
  return text;
}

TensorView FilterView(const ConvolutionSpec& spec) {
  if (spec.transposed) {
    return DenseView({spec.input.channels(), spec.kernel[0], spec.kernel[1],
                      spec.output.channels()});
  }
  return DenseView({spec.output.channels(), spec.kernel[0], spec.kernel[1],
                    spec.input.channels() / spec.groups});
}

int64_t AlignmentBytes(const TensorView& view, DataType dtype) {
  return std::min(view.alignment * SizeOf(dtype), kDeviceAlignment);
}

bool IsDense(const TensorView& view, DataType dtype) {
  return view.dense() && AlignmentBytes(view, dtype) == kDeviceAlignment;
}

int64_t SpanBytes(const TensorView& view, DataType dtype) {
  return ((view.pixels() - 1) * view.pitch + view.channels()) * SizeOf(dtype);
}

}  // namespace ios::cuda
