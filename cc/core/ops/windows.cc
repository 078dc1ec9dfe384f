#include "cc/core/ops/windows.h"

#include <algorithm>
#include <array>
#include <string>

#include "cc/core/limits.h"

namespace ios {
namespace {

// The output size and the padding of one spatial dimension, by the rules of
// TensorFlow's GetWindowedOutputSize.
struct Window {
  int64_t output, before, after;
};
// `before` and `after` are the explicit padding. Other padding types ignore
// them.
Window ComputeWindow(const Operator& op, int axis, int64_t input,
                     int64_t before, int64_t after) {
  const int64_t stride = op.strides[axis];
  const int64_t extent = (op.kernel[axis] - 1) * op.dilations[axis] + 1;
  if (op.padding.type == PaddingType::kSame) {
    const int64_t output = (input + stride - 1) / stride;
    const int64_t total =
        std::max<int64_t>((output - 1) * stride + extent - input, 0);
    return {output, total / 2, total - total / 2};
  }
  if (op.padding.type == PaddingType::kValid) before = after = 0;
  // The division rounds towards zero, as TensorFlow's does. A window that
  // exceeds the padded input by less than two strides gives the output size 0.
  // A larger window gives a negative size, which is an error.
  return {(input + before + after - extent + stride) / stride, before, after};
}

std::array<Window, 2> ComputeWindows(const Operator& op, const Shape& input) {
  const Padding& p = op.padding;
  return {ComputeWindow(op, 0, input[1], p.top, p.bottom),
          ComputeWindow(op, 1, input[2], p.left, p.right)};
}

// Returns the output size of a Conv2DTranspose in one dimension, before padding
// is cut off: the number of cells that its windows cover.
int64_t FullSize(const Operator& op, int axis, int64_t input) {
  return (input - 1) * op.strides[axis] +
         (op.kernel[axis] - 1) * op.dilations[axis] + 1;
}

// Returns height and width of a Conv2DTranspose's output, for inputs of the
// shapes `in`.
StatusOr<std::array<int64_t, 2>> TransposedSize(const Operator& op,
                                                const std::vector<Shape>& in) {
  const Padding& p = op.padding;
  const std::array<int64_t, 2> cut = {p.top + p.bottom, p.left + p.right};
  std::array<int64_t, 2> size;
  for (int i = 0; i < 2; ++i) {
    const int64_t input = in[0][1 + i];
    size[i] = FullSize(op, i, input);
    if (op.size_from_last_input) {
      size[i] = in.back()[1 + i];
      if (ComputeWindow(op, i, size[i], 0, 0).output != input) {
        return InvalidArgument(
            "no convolution with these attributes produces " + ToString(in[0]) +
            " from an image of the size of " + ToString(in.back()));
      }
    } else if (p.type == PaddingType::kSame) {
      size[i] = input * op.strides[i];
    } else if (p.type == PaddingType::kExplicit) {
      size[i] -= cut[i];
    }
    if (size[i] < 0) {
      return InvalidArgument("input " + ToString(in[0]) +
                             " is too small for this padding: the output would "
                             "have a negative size");
    }
  }
  return size;
}

}  // namespace

StatusOr<Shape> WindowedShape(const Operator& op, const Shape& x,
                              int64_t channels) {
  for (int i = 0; i < 2; ++i) {
    // Kernel cells that never overlap the image cost time and do not change the
    // result, so the kernel's size is limited.
    if (op.kernel[i] > std::max(kMaxKernel, 2 * x[1 + i])) {
      return InvalidArgument(
          "kernel of " + std::to_string(op.kernel[i]) +
          " exceeds the limit (4096, or twice the image) for the input " +
          ToString(x));
    }
  }
  const std::array<Window, 2> windows = ComputeWindows(op, x);
  if (windows[0].output < 0 || windows[1].output < 0) {
    return InvalidArgument("the kernel is larger than the padded input " +
                           ToString(x));
  }
  return Shape{x[0], windows[0].output, windows[1].output, channels};
}

StatusOr<Shape> TransposedShape(const Operator& op,
                                const std::vector<Shape>& in) {
  if (op.filters < 1) {
    return InvalidArgument("filters must be positive, not " +
                           std::to_string(op.filters));
  }
  IOS_ASSIGN_OR_RETURN(const auto size, TransposedSize(op, in));
  return Shape{in[0][0], size[0], size[1], op.filters};
}

std::array<int64_t, 4> ExplicitPadding(const Operator& op, const Shape& input) {
  const std::array<Window, 2> w = ComputeWindows(op, input);
  return {w[0].before, w[0].after, w[1].before, w[1].after};
}

std::array<int64_t, 4> TransposedPadding(const Operator& op, const Shape& input,
                                         const Shape& output) {
  std::array<int64_t, 4> padding;
  for (int i = 0; i < 2; ++i) {
    const int64_t cut = FullSize(op, i, input[1 + i]) - output[1 + i];
    int64_t before = 0;
    if (op.padding.type == PaddingType::kSame) {
      before = std::max<int64_t>(cut, 0) / 2;
    } else if (op.padding.type == PaddingType::kExplicit) {
      before = i == 0 ? op.padding.top : op.padding.left;
    }
    padding[2 * i] = before;
    padding[2 * i + 1] = cut - before;
  }
  return padding;
}

}  // namespace ios
