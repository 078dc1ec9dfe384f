#include "cc/core/ir/operator_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "cc/core/limits.h"

namespace ios {
namespace {

// Checks that the parameters are legal. Kinds without parameters must have the
// defaults.
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
        return InvalidArgument("pow does not support the exponent " +
                               std::to_string(activation.alpha));
      }
      break;
    default:
      if (activation.alpha != usual.alpha) {
        return InvalidArgument("the activation does not take alpha");
      }
  }
  if (activation.beta != usual.beta) {
    return InvalidArgument("the activation does not take beta");
  }
  return Status();
}

// Checks that every integer is small enough to compute with.
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
      return InvalidArgument("an attribute has the out-of-range value " +
                             std::to_string(number));
    }
  }
  // The limit is lower because block_size is squared.
  if (op.block_size > 1 << 15) {
    return InvalidArgument("block_size must be at most 32768, not " +
                           std::to_string(op.block_size));
  }
  return Status();
}

}  // namespace

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
  if (transposed && op.size_from_last_input &&
      p.type == PaddingType::kExplicit) {
    return InvalidArgument("padding must be SAME or VALID with 'like'");
  }
  if (transposed && (p.bottom <= -op.strides[0] || p.right <= -op.strides[1])) {
    return InvalidArgument(
        "padding must not extend the output by a stride or more");
  }
  for (int i = 0; i < 2; ++i) {
    if (op.factors[i] < 1 || op.output_size[i] < 0) {
      return InvalidArgument(
          "factors must be positive, and output_size must not be negative");
    }
  }
  if (std::min(op.channel_padding[0], op.channel_padding[1]) < 0 ||
      (op.pad_mode != PadMode::kConstant &&
       (op.channel_padding[0] > 0 || op.channel_padding[1] > 0))) {
    return InvalidArgument(
        "channel_padding must not be negative, and must be 0 unless pad_mode "
        "is constant");
  }
  if (op.block_size < 1 || op.depth_radius < 0) {
    return InvalidArgument(
        "block_size must be positive, and depth_radius must not be negative");
  }
  if (op.groups < 1 || op.multiplier < 1) {
    return InvalidArgument("groups and multiplier must be positive");
  }
  if (op.type == OperatorType::kPool && op.pool == PoolKind::kSum) {
    return InvalidArgument("pool must be max or avg");
  }
  if (op.pads_zeros &&
      (op.type != OperatorType::kPool || op.pool != PoolKind::kMax ||
       op.padding.type != PaddingType::kExplicit)) {
    return InvalidArgument(
        "pads_zeros is allowed only for max pools with explicit padding");
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
      least = most = op.size_from_last_input ? 2 : 1;
      break;
    default:
      break;
  }
  if (inputs < least || inputs > most) {
    return InvalidArgument("an operator with these attributes cannot have " +
                           std::to_string(inputs) + " inputs");
  }
  return Status();
}

}  // namespace ios
