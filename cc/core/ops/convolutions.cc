// The definitions of the operators Conv2D, SepConv, Conv2DTranspose and MatMul.

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "cc/core/limits.h"
#include "cc/core/ops/definition.h"
#include "cc/core/ops/windows.h"

namespace ios {
namespace {

Arity WithResidual(const Operator& op) {
  const size_t inputs = op.residual ? 2 : 1;
  return {inputs, inputs};
}

Shapes WithBias(const Operator& op, Shapes weights) {
  if (op.bias) weights.push_back({op.filters});
  return weights;
}

int64_t CellsOfWindow(const Operator& op) {
  return SaturatingProduct({op.kernel[0], op.kernel[1]});
}

StatusOr<Shape> ShapeWithFilters(const Operator& op, const Shapes& in) {
  if (op.filters < 1) {
    return InvalidArgument("filters must be positive, not " +
                           std::to_string(op.filters));
  }
  return WindowedShape(op, in[0], op.filters);
}

}  // namespace

constexpr OperatorDefinition kConv2DDefinition = [] {
  OperatorDefinition conv{"conv2d"};
  conv.arity = WithResidual;
  conv.reads_images = true;
  conv.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    if (in[0][3] % op.groups != 0) {
      return GroupsDoNotDivide(op.groups, "input channels", in[0][3]);
    }
    if (op.filters % op.groups != 0) {
      return GroupsDoNotDivide(op.groups, "filters", op.filters);
    }
    return ShapeWithFilters(op, in);
  };
  conv.weights = [](const Operator& op, const Shape& x) {
    return WithBias(
        op, {{op.kernel[0], op.kernel[1], x[3] / op.groups, op.filters}});
  };
  conv.flops = [](const Operator& op, const Shapes& in, const Shape& output) {
    return SaturatingProduct(
        {2, NumElements(output), CellsOfWindow(op), in[0][3] / op.groups});
  };
  conv.channels = [](const Operator& op, int64_t channels) {
    return op.groups == 1          ? ChannelUse::kSum
           : op.groups == channels ? ChannelUse::kEach
                                   : ChannelUse::kOther;
  };
  conv.activates = true;
  conv.reads_empty_images = [](const Operator&) { return true; };
  return conv;
}();

constexpr OperatorDefinition kSepConvDefinition = [] {
  OperatorDefinition conv{"sepconv"};
  conv.arity = WithResidual;
  conv.reads_images = true;
  conv.check = [](const Operator& op) {
    if (op.pre_activation != Activation::kNone &&
        op.pre_activation != Activation::kRelu) {
      return InvalidArgument("pre_activation must be none or relu");
    }
    return OperatorDefinition::PaddingIsNotNegative(op);
  };
  conv.shape = ShapeWithFilters;
  conv.weights = [](const Operator& op, const Shape& x) {
    const int64_t depthwise = x[3] * op.multiplier;
    return WithBias(op, {{op.kernel[0], op.kernel[1], 1, depthwise},
                         {1, 1, depthwise, op.filters}});
  };
  conv.flops = [](const Operator& op, const Shapes& in, const Shape& output) {
    return SaturatingProduct(
        {2, NumElements({output[0], output[1], output[2]}), in[0][3],
         op.multiplier, std::min(CellsOfWindow(op), kMaxFlops) + op.filters});
  };
  conv.channels = OperatorDefinition::SumOfChannels;
  conv.activates = true;
  conv.reads_empty_images = [](const Operator&) { return true; };
  return conv;
}();

constexpr OperatorDefinition kConv2DTransposeDefinition = [] {
  OperatorDefinition conv{"conv2d_transpose"};
  conv.arity = [](const Operator& op) -> Arity {
    const size_t inputs = op.size_from_last_input ? 2 : 1;
    return {inputs, inputs};
  };
  conv.reads_images = true;
  conv.check = [](const Operator& op) {
    const Padding& p = op.padding;
    if (std::min(p.top, p.left) < 0) {
      return InvalidArgument("padding must not be negative");
    }
    if (op.size_from_last_input && p.type == PaddingType::kExplicit) {
      return InvalidArgument(
          "padding must be SAME or VALID if the output takes its size from the "
          "last input");
    }
    if (p.bottom <= -op.strides[0] || p.right <= -op.strides[1]) {
      return InvalidArgument(
          "negative padding must be smaller than the stride");
    }
    return Status();
  };
  conv.shape = TransposedShape;
  conv.weights = [](const Operator& op, const Shape& x) {
    return WithBias(op, {{op.kernel[0], op.kernel[1], x[3], op.filters}});
  };
  conv.flops = [](const Operator& op, const Shapes& in, const Shape&) {
    return SaturatingProduct(
        {2, NumElements(in[0]), CellsOfWindow(op), op.filters});
  };
  conv.channels = OperatorDefinition::SumOfChannels;
  conv.activates = true;
  conv.reads_empty_images = [](const Operator&) { return true; };
  return conv;
}();

constexpr OperatorDefinition kMatMulDefinition = [] {
  OperatorDefinition matmul{"matmul"};
  matmul.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    const Shape& x = in[0];
    if (x.size() == 4 && (x[1] != op.kernel[0] || x[2] != op.kernel[1])) {
      return NotAsWanted(
          x, "be [N,C], or an image [N,H,W,C] of the kernel's size");
    }
    if (op.filters < 1) {
      return InvalidArgument("filters must be positive, not " +
                             std::to_string(op.filters));
    }
    return Shape{x[0], op.filters};
  };
  matmul.weights = [](const Operator& op, const Shape& x) {
    Shape matrix(x.begin() + 1, x.end());
    matrix.push_back(op.filters);
    return WithBias(op, {std::move(matrix)});
  };
  matmul.flops = [](const Operator& op, const Shapes& in, const Shape&) {
    return SaturatingProduct({2, NumElements(in[0]), op.filters});
  };
  matmul.channels = OperatorDefinition::SumOfChannels;
  matmul.activates = true;
  return matmul;
}();

bool IsConvolution(OperatorType type) {
  return type == OperatorType::kConv2D || type == OperatorType::kSepConv ||
         type == OperatorType::kConv2DTranspose;
}

bool MayCompute(const Operator& op, Algorithm algorithm) {
  using Pair = std::array<int64_t, 2>;
  if (algorithm == Algorithm::kDirect) return true;
  if (algorithm == Algorithm::kGemm) {
    const bool pads = op.padding.type == PaddingType::kExplicit &&
                      (op.padding.top != 0 || op.padding.bottom != 0 ||
                       op.padding.left != 0 || op.padding.right != 0);
    return op.type == OperatorType::kSepConv ||
           op.type == OperatorType::kMatMul ||
           (op.type == OperatorType::kConv2D && op.kernel == Pair{1, 1} &&
            op.groups == 1 && !pads);
  }
  if (algorithm == Algorithm::kRows) {
    return op.type == OperatorType::kConv2D && op.groups > 1 &&
           op.groups == op.filters && !op.residual && op.kernel[0] <= 16;
  }
  const auto [least, most] = std::minmax(op.kernel[0], op.kernel[1]);
  const bool has_window =
      most == 3 || (algorithm == Algorithm::kWinograd2 &&
                    (most == 5 || (most == 7 && least == 1)));
  return op.type == OperatorType::kConv2D && has_window &&
         (least == most || least == 1) && op.strides == Pair{1, 1} &&
         op.dilations == Pair{1, 1} && op.groups == 1;
}

}  // namespace ios
