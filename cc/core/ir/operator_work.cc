// The shapes of operators' weights, and estimates of operators' work.

#include <algorithm>

#include "cc/core/ir/block.h"
#include "cc/core/limits.h"

namespace ios {

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
