#include "cc/core/ir/block.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "cc/core/ir/block_json.h"
#include "cc/core/limits.h"
#include "cc/core/sha256.h"

namespace ios {
namespace {

std::string Where(const Operator& op, int index) {
  return std::string(ToString(op.type)) + " operator " + std::to_string(index) +
         (op.name.empty() ? "" : " '" + op.name + "'");
}

bool IsWindowed(OperatorType type) {
  return type == OperatorType::kConv2D || type == OperatorType::kSepConv ||
         type == OperatorType::kPool;
}

// Output size and padding of one spatial dimension; TensorFlow's
// GetWindowedOutputSize rules.
struct Window {
  int64_t output, before, after;
};
Window ComputeWindow(int64_t input, int64_t kernel, int64_t stride,
                     int64_t dilation, PaddingType type, int64_t before,
                     int64_t after) {
  const int64_t extent = (kernel - 1) * dilation + 1;
  if (type == PaddingType::kSame) {
    const int64_t output = (input + stride - 1) / stride;
    const int64_t total =
        std::max<int64_t>((output - 1) * stride + extent - input, 0);
    return {output, total / 2, total - total / 2};
  }
  if (type == PaddingType::kValid) before = after = 0;
  // As TensorFlow rounds, windows that are a little too large give no output,
  // and larger ones an error.
  return {(input + before + after - extent + stride) / stride, before, after};
}

std::array<Window, 2> ComputeWindows(const Operator& op, const Shape& input) {
  return {ComputeWindow(input[1], op.kernel[0], op.strides[0], op.dilations[0],
                        op.padding.type, op.padding.top, op.padding.bottom),
          ComputeWindow(input[2], op.kernel[1], op.strides[1], op.dilations[1],
                        op.padding.type, op.padding.left, op.padding.right)};
}

// Which kinds have parameters, and that they make sense.
Status CheckActivation(const Activation& activation) {
  const Activation usual(activation.kind);
  switch (activation.kind) {
    case Activation::kSwish:
    case Activation::kElu:
    case Activation::kLeakyRelu:
    case Activation::kMaximum:
    case Activation::kMinimum:
    case Activation::kThreshold:
      break;
    case Activation::kHardSigmoid:
    case Activation::kClip:
      return Status();
    case Activation::kPow:
      if (std::abs(activation.alpha) != 0.5f &&
          (activation.alpha == 0.0f || std::abs(activation.alpha) > 4.0f ||
           activation.alpha != std::round(activation.alpha))) {
        return InvalidArgument("has a pow by " +
                               std::to_string(activation.alpha));
      }
      break;
    default:
      if (activation.alpha != usual.alpha) {
        return InvalidArgument("its activation has no alpha");
      }
  }
  if (activation.beta != usual.beta) {
    return InvalidArgument("its activation has no beta");
  }
  return Status();
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
      if (ComputeWindow(size[i], op.kernel[i], op.strides[i], op.dilations[i],
                        p.type, 0, 0)
              .output != input) {
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

// Every whole number is small enough to be computed with.
Status CheckRanges(const Operator& op) {
  const Padding& p = op.padding;
  const std::array<int64_t, 22> numbers = {op.kernel[0],
                                           op.kernel[1],
                                           op.strides[0],
                                           op.strides[1],
                                           op.dilations[0],
                                           op.dilations[1],
                                           p.top,
                                           p.bottom,
                                           p.left,
                                           p.right,
                                           op.filters,
                                           op.groups,
                                           op.multiplier,
                                           op.offset,
                                           op.size,
                                           op.output_size[0],
                                           op.output_size[1],
                                           op.factors[0],
                                           op.factors[1],
                                           op.channel_padding[0],
                                           op.channel_padding[1],
                                           op.depth_radius};
  for (int64_t number : numbers) {
    if (number < -kMaxDimension || number > kMaxDimension) {
      return InvalidArgument("has the number " + std::to_string(number));
    }
  }
  // It is squared.
  if (op.block_size > 1 << 15) {
    return InvalidArgument("has blocks of " + std::to_string(op.block_size));
  }
  return Status();
}

// A tensor of this shape may exist.
Status CheckShape(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t d : shape) {
    if (d < 0) {
      return InvalidArgument("tensor " + ToString(shape) +
                             " is not fully defined");
    }
    elements = SaturatingProduct({elements, std::max<int64_t>(d, 1)});
    if (d > kMaxDimension || elements > kMaxElements) {
      return InvalidArgument("tensor " + ToString(shape) + " is too large");
    }
  }
  return Status();
}

// Operators read and write only [N,H,W,C] and [N,C].
Status CheckTensor(const Shape& shape) {
  if (shape.size() != 4 && shape.size() != 2) {
    return InvalidArgument("input " + ToString(shape) +
                           " is not [N,H,W,C] or [N,C]");
  }
  return CheckShape(shape);
}

Status CheckAttributes(const Operator& op) {
  IOS_RETURN_IF_ERROR(CheckRanges(op));
  for (int i = 0; i < 2; ++i) {
    if (op.kernel[i] < 1 || op.strides[i] < 1 || op.dilations[i] < 1) {
      return InvalidArgument("kernel, strides and dilations must be positive");
    }
  }
  const Padding& p = op.padding;
  const bool transposed = op.type == OperatorType::kConv2DTranspose;
  const int64_t least = transposed
                            ? std::min(p.top, p.left)
                            : std::min({p.top, p.bottom, p.left, p.right});
  if (op.type != OperatorType::kPad && least < 0) {
    return InvalidArgument("padding must not be negative");
  }
  if (transposed && op.like && p.type == PaddingType::kExplicit) {
    return InvalidArgument("padding must be SAME or VALID");
  }
  if (transposed && (p.bottom <= -op.strides[0] || p.right <= -op.strides[1])) {
    return InvalidArgument("the output is larger than by a stride");
  }
  for (int i = 0; i < 2; ++i) {
    if (op.factors[i] < 1 || op.output_size[i] < 0) {
      return InvalidArgument("factors and output_size must be positive");
    }
  }
  if (std::min(op.channel_padding[0], op.channel_padding[1]) < 0 ||
      (op.pad_mode != PadMode::kConstant &&
       (op.channel_padding[0] > 0 || op.channel_padding[1] > 0))) {
    return InvalidArgument(
        "channels are padded by no negative or mirrored ones");
  }
  if (op.block_size < 1 || op.depth_radius < 0) {
    return InvalidArgument("block_size and depth_radius must be positive");
  }
  if (op.groups < 1 || op.multiplier < 1) {
    return InvalidArgument("groups and multiplier must be positive");
  }
  if (op.type == OperatorType::kPool && op.pool == PoolKind::kSum) {
    return InvalidArgument("pool must be max or avg");
  }
  for (int64_t d : op.operand) {
    if (d < 1) return InvalidArgument("operand must have positive dimensions");
  }
  IOS_RETURN_IF_ERROR(CheckShape(op.operand));
  if (op.pre_activation != Activation::kNone &&
      op.pre_activation != Activation::kRelu) {
    return InvalidArgument("pre_activation must be none or relu");
  }
  if (!MayCompute(op, op.algorithm)) {
    return InvalidArgument(std::string("algorithm cannot be ") +
                           ToString(op.algorithm));
  }
  return CheckActivation(op.activation);
}

Status CheckArity(const Operator& op, size_t inputs) {
  size_t least = 1, most = 1;
  switch (op.type) {
    case OperatorType::kConv2D:
    case OperatorType::kSepConv:
      least = most = op.residual ? 2 : 1;
      break;
    case OperatorType::kConcat:
      most = kMaxOperatorInputs;
      break;
    case OperatorType::kAdd:
      least = 2, most = kMaxOperatorInputs;
      break;
    case OperatorType::kBinary:
      least = most = op.operand.empty() ? 2 : 1;
      break;
    case OperatorType::kResize:
    case OperatorType::kConv2DTranspose:
      least = most = op.like ? 2 : 1;
      break;
    default:
      break;
  }
  if (inputs < least || inputs > most) {
    return InvalidArgument("has " + std::to_string(inputs) + " inputs");
  }
  return Status();
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

bool MayCompute(const Operator& op, Algorithm algorithm) {
  using Pair = std::array<int64_t, 2>;
  if (algorithm == Algorithm::kDirect) return true;
  const auto [least, most] = std::minmax(op.kernel[0], op.kernel[1]);
  const bool has_window =
      most == 3 || (algorithm == Algorithm::kWinograd2 &&
                    (most == 5 || (most == 7 && least == 1)));
  return op.type == OperatorType::kConv2D && has_window &&
         (least == most || least == 1) && op.strides == Pair{1, 1} &&
         op.dilations == Pair{1, 1} && op.groups == 1;
}

bool IsConvolution(OperatorType type) {
  return type == OperatorType::kConv2D || type == OperatorType::kSepConv ||
         type == OperatorType::kConv2DTranspose;
}

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

int64_t BatchSize(const std::vector<Shape>& inputs) {
  int64_t batch = 1;
  for (const Shape& shape : inputs) {
    if (shape.empty()) continue;  // of another network
    // A batch of no images broadcasts against one as well.
    if (batch == 1 || shape[0] > batch) batch = shape[0];
  }
  return batch;
}

int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::array<float, 2> Activation::Defaults(Kind kind) {
  switch (kind) {
    case kSwish:
    case kElu:
      return {1.0f, 0.0f};
    case kHardSigmoid:
      return {1.0f / 6.0f, 0.5f};
    case kLeakyRelu:
      return {0.2f, 0.0f};
    case kClip:
      return {0.0f, 1.0f};
    case kPow:
      return {3.0f, 0.0f};
    default:
      return {0.0f, 0.0f};
  }
}

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i ? "," : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

const Shape& ShapeOf(const Block& block, const std::vector<Shape>& shapes,
                     int ref) {
  return ref < 0 ? block.inputs[-1 - ref] : shapes[ref];
}

std::vector<Shape> InputShapes(const Block& block,
                               const std::vector<Shape>& shapes, int index) {
  std::vector<Shape> inputs;
  for (int ref : block.operators[index].inputs) {
    inputs.push_back(ShapeOf(block, shapes, ref));
  }
  return inputs;
}

StatusOr<std::vector<Shape>> InferShapes(const Block& block) {
  // Those that nothing reads, too.
  for (const Shape& shape : block.inputs) {
    IOS_RETURN_IF_ERROR(CheckTensor(shape));
  }
  std::vector<Shape> shapes;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    StatusOr<Shape> shape = InferShape(op, InputShapes(block, shapes, i));
    if (!shape.ok()) {
      return Status(shape.status().code(),
                    Where(op, i) + ": " + shape.status().message());
    }
    shapes.push_back(std::move(*shape));
  }
  return shapes;
}

PartOfBlock TakePart(const Block& block, const std::vector<Shape>& shapes,
                     const std::vector<int>& operators) {
  PartOfBlock part;
  part.block.name = block.name;
  part.block.dtype = block.dtype;
  std::map<int, int> known;  // references inside of the part
  for (int i : operators) {
    Operator op = block.operators[i];
    for (int& ref : op.inputs) {
      const auto [inside, is_new] = known.try_emplace(ref);
      if (is_new) {
        part.inputs.push_back(ref);
        part.block.inputs.push_back(ShapeOf(block, shapes, ref));
        inside->second = -static_cast<int>(part.inputs.size());
      }
      ref = inside->second;
    }
    known[i] = part.block.operators.size();
    part.block.operators.push_back(std::move(op));
  }
  std::vector<bool> read(block.operators.size());  // by the rest
  for (int out : block.outputs) read[out] = true;
  std::vector<bool> members(block.operators.size());
  for (int i : operators) members[i] = true;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    if (members[i]) continue;
    for (int ref : block.operators[i].inputs) {
      if (ref >= 0) read[ref] = true;
    }
  }
  for (int i : operators) {
    if (!read[i]) continue;
    part.outputs.push_back(i);
    part.block.outputs.push_back(known[i]);
  }
  return part;
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

bool PadsWithZeros(const Operator& op) {
  return op.type == OperatorType::kPad && op.pad_mode == PadMode::kConstant &&
         op.pad_value == 0.0f &&
         op.channel_padding == std::array<int64_t, 2>{0, 0};
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

Status Validate(const Block& block) {
  if (block.operators.empty()) return InvalidArgument("block has no operators");
  if (block.operators.size() > kMaxOperators ||
      block.inputs.size() > kMaxOperators) {
    return InvalidArgument("block has more than " +
                           std::to_string(kMaxOperators) +
                           " operators or inputs");
  }
  const int num_inputs = block.inputs.size();
  const int num_operators = block.operators.size();
  size_t references = 0;
  for (int i = 0; i < num_operators; ++i) {
    const Operator& op = block.operators[i];
    references += op.inputs.size();
    if (references > kMaxReferences) {
      return InvalidArgument("operators read more than " +
                             std::to_string(kMaxReferences) + " tensors");
    }
    for (int ref : op.inputs) {
      if (ref >= i || ref < -num_inputs) {
        return InvalidArgument(Where(op, i) + " reads tensor " +
                               std::to_string(ref) +
                               ", which does not come before it");
      }
    }
  }
  std::vector<bool> seen(num_operators, false);
  if (block.outputs.empty()) return InvalidArgument("block has no outputs");
  for (int out : block.outputs) {
    if (out < 0 || out >= num_operators || seen[out]) {
      return InvalidArgument("output " + std::to_string(out) +
                             " is no operator, or is listed twice");
    }
    seen[out] = true;
  }
  return InferShapes(block).status();
}

std::string Signature(const Block& block) {
  Block nameless = block;
  nameless.name.clear();
  for (Operator& op : nameless.operators) op.name.clear();
  return Sha256Hex(ToJson(nameless));
}

}  // namespace ios
