// The shapes of operators' outputs.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "cc/core/ir/block.h"
#include "cc/core/ir/operator_checks.h"
#include "cc/core/limits.h"

namespace ios {
namespace {

bool IsWindowed(OperatorType type) {
  return type == OperatorType::kConv2D || type == OperatorType::kSepConv ||
         type == OperatorType::kPool;
}

// The output size and padding of one spatial dimension. The rules are those of
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
  // TensorFlow's rounding. A window that exceeds the input by less than two
  // strides gives an output of size 0. A larger window gives a negative size,
  // which is an error.
  return {(input + before + after - extent + stride) / stride, before, after};
}

std::array<Window, 2> ComputeWindows(const Operator& op, const Shape& input) {
  const Padding& p = op.padding;
  return {ComputeWindow(op, 0, input[1], p.top, p.bottom),
          ComputeWindow(op, 1, input[2], p.left, p.right)};
}

// The number of cells that all windows of a Conv2DTranspose cover in one
// dimension of its output, before any padding is cut off.
int64_t FullSize(const Operator& op, int axis, int64_t input) {
  return (input - 1) * op.strides[axis] +
         (op.kernel[axis] - 1) * op.dilations[axis] + 1;
}

// Height and width of a Conv2DTranspose's output.
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
      return InvalidArgument("input " + ToString(in[0]) + " is too small");
    }
  }
  return size;
}

Status NotAsWanted(const Shape& input, const char* wanted) {
  return InvalidArgument("tensor " + ToString(input) + " must " + wanted);
}

// The output of an operator that moves a window over the image `x`.
StatusOr<Shape> WindowedShape(const Operator& op, const Shape& x,
                              int64_t channels) {
  for (int i = 0; i < 2; ++i) {
    // Kernel cells beyond the image cost time and do not change the result.
    if (op.kernel[i] > std::max(kMaxKernel, 2 * x[1 + i])) {
      return InvalidArgument("kernel of " + std::to_string(op.kernel[i]) +
                             " is too large for input " + ToString(x));
    }
  }
  const std::array<Window, 2> windows = ComputeWindows(op, x);
  if (windows[0].output < 0 || windows[1].output < 0) {
    return InvalidArgument("kernel is larger than input " + ToString(x));
  }
  return Shape{x[0], windows[0].output, windows[1].output, channels};
}

StatusOr<Shape> ConvolutionShape(const Operator& op, const Shape& x) {
  if (op.type == OperatorType::kConv2D &&
      (x[3] % op.groups != 0 || op.filters < 1 ||
       op.filters % op.groups != 0)) {
    return InvalidArgument(std::to_string(op.groups) +
                           " groups do not divide " + std::to_string(x[3]) +
                           " and " + std::to_string(op.filters) + " channels");
  }
  if (op.filters < 1) return InvalidArgument("filters must be positive");
  return WindowedShape(op, x, op.filters);
}

StatusOr<Shape> TransposedShape(const Operator& op,
                                const std::vector<Shape>& in) {
  if (op.filters < 1) return InvalidArgument("filters must be positive");
  IOS_ASSIGN_OR_RETURN(const auto size, TransposedSize(op, in));
  return Shape{in[0][0], size[0], size[1], op.filters};
}

StatusOr<Shape> MatMulShape(const Operator& op, const Shape& x) {
  if (x.size() == 4 && (x[1] != op.kernel[0] || x[2] != op.kernel[1])) {
    return NotAsWanted(x, "be [N,C] or an image of the kernel's size");
  }
  if (op.filters < 1) return InvalidArgument("filters must be positive");
  return Shape{x[0], op.filters};
}

StatusOr<Shape> ConcatShape(const std::vector<Shape>& in) {
  const Shape& x = in[0];
  Shape output = x;
  output.back() = 0;
  for (const Shape& s : in) {
    if (s.size() != x.size() ||
        !std::equal(s.begin(), s.end() - 1, x.begin())) {
      return InvalidArgument("inputs " + ToString(x) + " and " + ToString(s) +
                             " cannot be concatenated");
    }
    output.back() += s.back();
  }
  return output;
}

StatusOr<Shape> SumShape(const std::vector<Shape>& in) {
  for (const Shape& s : in) {
    if (s != in[0]) {
      return InvalidArgument("inputs " + ToString(in[0]) + " and " +
                             ToString(s) + " cannot be added");
    }
  }
  return in[0];
}

StatusOr<Shape> BinaryShape(const Operator& op, const std::vector<Shape>& in) {
  const Shape& y = op.operand.empty() ? in[1] : op.operand;
  const Shape output = Broadcast(in[0], y);
  if (!output.empty()) return output;
  return InvalidArgument("inputs " + ToString(in[0]) + " and " + ToString(y) +
                         " cannot be broadcast to one shape");
}

StatusOr<Shape> PaddedImageShape(const Operator& op, const Shape& x) {
  const Padding& p = op.padding;
  const int64_t less = op.pad_mode == PadMode::kReflect ? 1 : 0;
  if (op.pad_mode != PadMode::kConstant &&
      (std::max(p.top, p.bottom) > x[1] - less ||
       std::max(p.left, p.right) > x[2] - less || x[0] < less)) {
    return NotAsWanted(x, "be large enough for mirror padding");
  }
  return Shape{x[0], std::max<int64_t>(x[1] + p.top + p.bottom, 0),
               std::max<int64_t>(x[2] + p.left + p.right, 0),
               x[3] + op.channel_padding[0] + op.channel_padding[1]};
}

StatusOr<Shape> ResizedShape(const Operator& op, const std::vector<Shape>& in) {
  const Shape& x = in[0];
  Shape output = x;
  for (int i = 0; i < 2; ++i) {
    output[1 + i] = op.size_from_last_input ? in.back()[1 + i] * op.factors[i]
                    : op.output_size[i] > 0 ? op.output_size[i]
                                            : x[1 + i] * op.factors[i];
  }
  // TensorFlow refuses empty images, too, even if the batch is empty.
  for (const Shape& shape : {x, output}) {
    if (shape[1] < 1 || shape[2] < 1) {
      return NotAsWanted(shape, "have at least one pixel per image");
    }
  }
  return output;
}

// The output of DepthToSpace or SpaceToDepth.
StatusOr<Shape> MovedDepthShape(const Operator& op, const Shape& x) {
  const int64_t side = op.block_size, cells = side * side;
  if (op.type == OperatorType::kDepthToSpace) {
    if (x[3] % cells != 0) {
      return NotAsWanted(x,
                         "have a multiple of block_size * block_size channels");
    }
    return Shape{x[0], x[1] * side, x[2] * side, x[3] / cells};
  }
  if (x[1] % side != 0 || x[2] % side != 0) {
    return NotAsWanted(
        x, "have a height and a width that are multiples of block_size");
  }
  return Shape{x[0], x[1] / side, x[2] / side, x[3] * cells};
}

StatusOr<Shape> SliceShape(const Operator& op, const Shape& x) {
  if (op.offset < 0 || op.size < 1 || op.offset + op.size > x.back()) {
    return InvalidArgument("slice is outside of input " + ToString(x));
  }
  Shape output = x;
  output.back() = op.size;
  return output;
}

StatusOr<Shape> ReducedShape(const Shape& x) {
  if (x.back() < 1) return NotAsWanted(x, "have at least one channel");
  Shape output = x;
  output.back() = 1;
  return output;
}

StatusOr<Shape> ShapeOfGroups(const Operator& op, const Shape& x) {
  if (x.back() % op.groups == 0) return x;
  return InvalidArgument(std::to_string(op.groups) + " groups do not divide " +
                         std::to_string(x.back()) + " channels");
}

// Applies the rules of the operator's type to inputs that passed CheckRanks.
StatusOr<Shape> OutputShape(const Operator& op, const std::vector<Shape>& in) {
  const Shape& x = in[0];
  switch (op.type) {
    case OperatorType::kConv2D:
    case OperatorType::kSepConv:
      return ConvolutionShape(op, x);
    case OperatorType::kConv2DTranspose:
      return TransposedShape(op, in);
    case OperatorType::kMatMul:
      return MatMulShape(op, x);
    case OperatorType::kPool:
      return WindowedShape(op, x, x[3]);
    case OperatorType::kGlobalPool:
      return op.keep_dims ? Shape{x[0], 1, 1, x[3]} : Shape{x[0], x[3]};
    case OperatorType::kReduce:
      return ReducedShape(x);
    case OperatorType::kNormalize:
    case OperatorType::kChannelShuffle:
      return ShapeOfGroups(op, x);
    case OperatorType::kConcat:
      return ConcatShape(in);
    case OperatorType::kAdd:
      return SumShape(in);
    case OperatorType::kBinary:
      return BinaryShape(op, in);
    case OperatorType::kPad:
      return PaddedImageShape(op, x);
    case OperatorType::kSlice:
      return SliceShape(op, x);
    case OperatorType::kResize:
      return ResizedShape(op, in);
    case OperatorType::kDepthToSpace:
    case OperatorType::kSpaceToDepth:
      return MovedDepthShape(op, x);
    case OperatorType::kLrn:
    case OperatorType::kSoftmax:
    case OperatorType::kActivation:
    case OperatorType::kScale:
      break;
  }
  return x;
}

Status CheckRanks(const Operator& op, const std::vector<Shape>& in) {
  const bool spatial =
      IsWindowed(op.type) || op.type == OperatorType::kGlobalPool ||
      op.type == OperatorType::kPad || op.type == OperatorType::kResize ||
      op.type == OperatorType::kConv2DTranspose ||
      op.type == OperatorType::kDepthToSpace ||
      op.type == OperatorType::kSpaceToDepth || op.type == OperatorType::kLrn;
  if (spatial && in[0].size() != 4) return NotAsWanted(in[0], "be [N,H,W,C]");
  if (op.size_from_last_input && in.back().size() != 4) {
    return InvalidArgument("reference " + ToString(in.back()) +
                           " is not [N,H,W,C]");
  }
  return Status();
}

// Checks that tensors, weights and work are within limits.
Status CheckSizes(const Operator& op, const std::vector<Shape>& in,
                  const Shape& output) {
  IOS_RETURN_IF_ERROR(CheckShape(output));
  if ((op.type == OperatorType::kPad || op.type == OperatorType::kResize) &&
      std::max(output[1], output[2]) > kMaxMapped) {
    return InvalidArgument("the output image is too large: " +
                           ToString(output));
  }
  for (const Shape& shape : WeightShapes(op, in[0])) {
    IOS_RETURN_IF_ERROR(CheckShape(shape));
  }
  const int64_t flops = Flops(op, in, output);
  if (flops > kMaxFlops) {
    return InvalidArgument("the operator needs " + std::to_string(flops) +
                           " multiply-adds, which are too many");
  }
  return Status();
}

}  // namespace

Shape Broadcast(const Shape& x, const Shape& y) {
  if (x.size() != y.size()) return {};
  Shape result = x;
  for (size_t d = 0; d < x.size(); ++d) {
    if (x[d] != y[d] && x[d] != 1 && y[d] != 1) return {};
    if (x[d] == 1) result[d] = y[d];
  }
  return result;
}

StatusOr<Shape> InferShape(const Operator& op, const std::vector<Shape>& in) {
  IOS_RETURN_IF_ERROR(CheckAttributes(op));
  IOS_RETURN_IF_ERROR(CheckArity(op, in.size()));
  for (const Shape& shape : in) IOS_RETURN_IF_ERROR(CheckTensor(shape));
  IOS_RETURN_IF_ERROR(CheckRanks(op, in));
  IOS_ASSIGN_OR_RETURN(const Shape output, OutputShape(op, in));
  if (op.residual && in.back() != output) {
    return InvalidArgument("residual " + ToString(in.back()) +
                           " cannot be added to the output " +
                           ToString(output));
  }
  IOS_RETURN_IF_ERROR(CheckSizes(op, in, output));
  return output;
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

float ResizeScale(Coordinates coordinates, int64_t input, int64_t output) {
  return coordinates == Coordinates::kAlignCorners && output > 1
             ? (input - 1) / static_cast<float>(output - 1)
             : input / static_cast<float>(output);
}

}  // namespace ios
