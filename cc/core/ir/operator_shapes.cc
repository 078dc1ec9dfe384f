// The shapes that operators give and own, and the work they are.

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

// Output size and padding of one spatial dimension; TensorFlow's
// GetWindowedOutputSize rules.
struct Window {
  int64_t output, before, after;
};
// `before`, `after`: the padding where it is explicit.
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
  // As TensorFlow rounds, windows that are a little too large give no output,
  // and larger ones an error.
  return {(input + before + after - extent + stride) / stride, before, after};
}

std::array<Window, 2> ComputeWindows(const Operator& op, const Shape& input) {
  const Padding& p = op.padding;
  return {ComputeWindow(op, 0, input[1], p.top, p.bottom),
          ComputeWindow(op, 1, input[2], p.left, p.right)};
}

// The size that a window of a convolution from output to input has been moved
// over.
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
    if (op.like) {
      size[i] = in.back()[1 + i];
      if (ComputeWindow(op, i, size[i], 0, 0).output != input) {
        return InvalidArgument("no convolution makes " + ToString(in[0]) +
                               " of an image like " + ToString(in.back()));
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

// The shape that both broadcast to, by dimension; empty if they do not.
Shape Broadcast(const Shape& x, const Shape& y) {
  if (x.size() != y.size()) return {};
  Shape result = x;
  for (size_t d = 0; d < x.size(); ++d) {
    if (x[d] != y[d] && x[d] != 1 && y[d] != 1) return {};
    if (x[d] == 1) result[d] = y[d];
  }
  return result;
}

}  // namespace

StatusOr<Shape> InferShape(const Operator& op, const std::vector<Shape>& in) {
  IOS_RETURN_IF_ERROR(CheckAttributes(op));
  IOS_RETURN_IF_ERROR(CheckArity(op, in.size()));
  for (const Shape& shape : in) IOS_RETURN_IF_ERROR(CheckTensor(shape));
  const Shape& x = in[0];
  const auto bad_input = [&](const char* wanted) -> Status {
    return InvalidArgument("input " + ToString(x) + " is not " + wanted);
  };
  const bool spatial =
      IsWindowed(op.type) || op.type == OperatorType::kGlobalPool ||
      op.type == OperatorType::kPad || op.type == OperatorType::kResize ||
      op.type == OperatorType::kConv2DTranspose ||
      op.type == OperatorType::kDepthToSpace ||
      op.type == OperatorType::kSpaceToDepth || op.type == OperatorType::kLrn;
  if (spatial && x.size() != 4) return bad_input("[N,H,W,C]");
  if (op.like && in.back().size() != 4) {
    return InvalidArgument("reference " + ToString(in.back()) +
                           " is not [N,H,W,C]");
  }
  Shape output = x;
  switch (op.type) {
    case OperatorType::kConv2DTranspose: {
      if (op.filters < 1) return InvalidArgument("has no filters");
      IOS_ASSIGN_OR_RETURN(const auto size, TransposedSize(op, in));
      output = {x[0], size[0], size[1], op.filters};
      break;
    }
    case OperatorType::kConv2D:
      if (x[3] % op.groups != 0 || op.filters < 1 ||
          op.filters % op.groups != 0) {
        return InvalidArgument(std::to_string(op.groups) +
                               " groups do not divide " + std::to_string(x[3]) +
                               " and " + std::to_string(op.filters) +
                               " channels");
      }
      output[3] = op.filters;
      break;
    case OperatorType::kSepConv:
      if (op.filters < 1) return InvalidArgument("has no filters");
      output[3] = op.filters;
      break;
    case OperatorType::kGlobalPool:
      output = op.keep_dims ? Shape{x[0], 1, 1, x[3]} : Shape{x[0], x[3]};
      break;
    case OperatorType::kReduce:
      if (x.back() < 1) return bad_input("of one channel or more");
      output.back() = 1;
      break;
    case OperatorType::kNormalize:
    case OperatorType::kChannelShuffle:
      if (x.back() % op.groups != 0) {
        return InvalidArgument(std::to_string(op.groups) +
                               " groups do not divide " +
                               std::to_string(x.back()) + " channels");
      }
      break;
    case OperatorType::kConcat:
      output.back() = 0;
      for (const Shape& s : in) {
        if (s.size() != x.size() ||
            !std::equal(s.begin(), s.end() - 1, x.begin())) {
          return InvalidArgument("inputs " + ToString(x) + " and " +
                                 ToString(s) + " do not concatenate");
        }
        output.back() += s.back();
      }
      break;
    case OperatorType::kAdd:
      for (const Shape& s : in) {
        if (s != x) {
          return InvalidArgument("inputs " + ToString(x) + " and " +
                                 ToString(s) + " do not add");
        }
      }
      break;
    case OperatorType::kBinary: {
      const Shape& y = op.operand.empty() ? in[1] : op.operand;
      output = Broadcast(x, y);
      if (output.empty()) {
        return InvalidArgument("inputs " + ToString(x) + " and " + ToString(y) +
                               " do not broadcast");
      }
      break;
    }
    case OperatorType::kMatMul:
      if (x.size() == 4 && (x[1] != op.kernel[0] || x[2] != op.kernel[1])) {
        return bad_input("[N,C] or of the kernel's size");
      }
      if (op.filters < 1) return InvalidArgument("has no units");
      output = {x[0], op.filters};
      break;
    case OperatorType::kPad:
      output[1] =
          std::max<int64_t>(output[1] + op.padding.top + op.padding.bottom, 0);
      output[2] =
          std::max<int64_t>(output[2] + op.padding.left + op.padding.right, 0);
      output[3] += op.channel_padding[0] + op.channel_padding[1];
      if (op.pad_mode != PadMode::kConstant) {
        const int64_t less = op.pad_mode == PadMode::kReflect ? 1 : 0;
        const Padding& p = op.padding;
        if (std::max(p.top, p.bottom) > x[1] - less ||
            std::max(p.left, p.right) > x[2] - less || x[0] < less) {
          return bad_input("large enough to be mirrored");
        }
      }
      break;
    case OperatorType::kSlice:
      if (op.offset < 0 || op.size < 1 || op.offset + op.size > x.back()) {
        return InvalidArgument("slice is outside of input " + ToString(x));
      }
      output.back() = op.size;
      break;
    case OperatorType::kResize:
      for (int i = 0; i < 2; ++i) {
        output[1 + i] = op.like ? in.back()[1 + i] * op.factors[i]
                        : op.output_size[i] > 0 ? op.output_size[i]
                                                : x[1 + i] * op.factors[i];
      }
      // As TensorFlow, even where nothing is to be computed.
      if (x[1] < 1 || x[2] < 1) return bad_input("an image with cells");
      break;
    case OperatorType::kDepthToSpace:
      if (x[3] % (op.block_size * op.block_size) != 0) {
        return bad_input("of as many channels as blocks have cells");
      }
      output = {x[0], x[1] * op.block_size, x[2] * op.block_size,
                x[3] / (op.block_size * op.block_size)};
      break;
    case OperatorType::kSpaceToDepth:
      if (x[1] % op.block_size != 0 || x[2] % op.block_size != 0) {
        return bad_input("made of whole blocks");
      }
      output = {x[0], x[1] / op.block_size, x[2] / op.block_size,
                x[3] * op.block_size * op.block_size};
      break;
    case OperatorType::kLrn:
    case OperatorType::kPool:
    case OperatorType::kSoftmax:
    case OperatorType::kActivation:
    case OperatorType::kScale:
      break;
  }
  if (IsWindowed(op.type)) {
    for (int i = 0; i < 2; ++i) {
      // Cells beyond the image cost time and change nothing.
      if (op.kernel[i] > std::max(kMaxKernel, 2 * x[1 + i])) {
        return InvalidArgument("kernel of " + std::to_string(op.kernel[i]) +
                               " is too large for input " + ToString(x));
      }
    }
    const std::array<Window, 2> windows = ComputeWindows(op, x);
    output[1] = windows[0].output;
    output[2] = windows[1].output;
    if (output[1] < 0 || output[2] < 0) {
      return InvalidArgument("kernel is larger than input " + ToString(x));
    }
  }
  if (op.residual && in.back() != output) {
    return InvalidArgument("residual " + ToString(in.back()) +
                           " does not add to " + ToString(output));
  }
  IOS_RETURN_IF_ERROR(CheckShape(output));
  if ((op.type == OperatorType::kPad || op.type == OperatorType::kResize) &&
      std::max(output[1], output[2]) > kMaxMapped) {
    return InvalidArgument("gives an image of " + ToString(output));
  }
  for (const Shape& shape : WeightShapes(op, x)) {
    IOS_RETURN_IF_ERROR(CheckShape(shape));
  }
  const int64_t flops = Flops(op, in, output);
  if (flops > kMaxFlops) {
    return InvalidArgument("is of " + std::to_string(flops) +
                           " multiply-adds, which are too many");
  }
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

std::vector<Shape> WeightShapes(const Operator& op, const Shape& input) {
  std::vector<Shape> shapes;
  switch (op.type) {
    case OperatorType::kConv2D:
      shapes = {{op.kernel[0], op.kernel[1], input[3] / op.groups, op.filters}};
      break;
    case OperatorType::kConv2DTranspose:
      shapes = {{op.kernel[0], op.kernel[1], input[3], op.filters}};
      break;
    case OperatorType::kSepConv:
      shapes = {{op.kernel[0], op.kernel[1], 1, input[3] * op.multiplier},
                {1, 1, input[3] * op.multiplier, op.filters}};
      break;
    case OperatorType::kMatMul:
      shapes = {{input.begin() + 1, input.end()}};
      shapes[0].push_back(op.filters);
      break;
    case OperatorType::kScale:
    case OperatorType::kNormalize:
      return {{input.back()}, {input.back()}};
    case OperatorType::kBinary:
      if (!op.operand.empty()) return {op.operand};
      return {};
    default:
      return {};
  }
  if (op.bias) shapes.push_back({op.filters});
  return shapes;
}

int64_t Flops(const Operator& op, const std::vector<Shape>& inputs,
              const Shape& output) {
  const int64_t window = SaturatingProduct({op.kernel[0], op.kernel[1]});
  const Shape& x = inputs[0];
  switch (op.type) {
    case OperatorType::kConv2D:
      return SaturatingProduct(
          {2, NumElements(output), window, x[3] / op.groups});
    case OperatorType::kConv2DTranspose:
      return SaturatingProduct({2, NumElements(x), window, op.filters});
    case OperatorType::kSepConv:
      return SaturatingProduct(
          {2, NumElements({output[0], output[1], output[2]}), x[3],
           op.multiplier, std::min(window, kMaxFlops) + op.filters});
    case OperatorType::kMatMul:
      return SaturatingProduct({2, NumElements(x), op.filters});
    case OperatorType::kPool:
      return SaturatingProduct({NumElements(output), window});
    case OperatorType::kSlice:
      return 0;
    case OperatorType::kLrn:
      return SaturatingProduct({NumElements(x), 2 * op.depth_radius + 2});
    case OperatorType::kResize:
      return NumElements(output) *
             (op.interpolation == Interpolation::kBilinear ? 4 : 1);
    case OperatorType::kBinary:
      return 2 * NumElements(output);
    default:
      return NumElements(x) * static_cast<int64_t>(inputs.size());
  }
}

}  // namespace ios
