// Recognises a PReLU that a graph writes as several operations. PReLU
// multiplies each number below 0 by a constant of its channel or pixel, and
// keeps other numbers.
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "cc/tensorflow/fuse/composition.h"
#include "cc/tensorflow/fuse/evaluate.h"
#include "cc/tensorflow/fuse/rules.h"

namespace ios::tf {
namespace {

using Kind = ImportedOperator::Kind;
using Values = std::vector<double>;

bool IsZero(const Values& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double v) { return v == 0; });
}

Values Numbers(const Weight& weight) {
  return Values(weight.values.begin(), weight.values.end());
}

// Returns whether the operator's function f is homogeneous: f(t * x) = t * f(x)
// for every t > 0. A composition of homogeneous functions is homogeneous, too,
// so its values at 1 and -1 determine it for all numbers.
bool IsHomogeneous(const ImportedOperator& op) {
  if (op.kind == Kind::kSelect) {
    return op.selection.than == 0 && op.selection.first.value_or(0) == 0 &&
           op.selection.second.value_or(0) == 0;
  }
  const Activation& activation = op.op.activation;
  switch (activation.kind) {
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kLeakyRelu:
    case Activation::kAbs:
      break;
    case Activation::kMaximum:
    case Activation::kMinimum:
      if (activation.alpha != 0) return false;
      break;
    default:
      return false;
  }
  if (op.op.type == OperatorType::kScale) {
    return IsZero(Numbers(op.weights[1]));
  }
  if (op.op.type != OperatorType::kBinary) return true;
  switch (op.op.function) {
    case BinaryFunction::kMultiply:
      return !op.weights.empty();
    case BinaryFunction::kDivide:
      return !op.weights.empty() && !op.op.constant_first;
    case BinaryFunction::kAdd:
    case BinaryFunction::kSubtract:
    case BinaryFunction::kMaximum:
    case BinaryFunction::kMinimum:
      return op.weights.empty();
    default:
      return false;
  }
}

// Returns the shape of the constant that an operator multiplies or divides by,
// except for leading dimensions of 1. Returns an empty shape if there is no
// such constant.
Shape ConstantShape(const ImportedOperator& op) {
  if (op.weights.empty() || op.kind == Kind::kSelect) return {};
  if (op.op.type == OperatorType::kBinary) return op.op.operand;
  return {static_cast<int64_t>(op.weights[0].values.size())};
}

// Returns `shape` with leading dimensions of 1, so that its rank is `rank`.
Shape OfRank(size_t rank, Shape shape) {
  shape.insert(shape.begin(), rank - shape.size(), 1);
  return shape;
}

// Returns the shape of rank `rank` to which the composition's constants
// broadcast, or an empty shape if they do not broadcast.
Shape ConstantsShape(const OperatorGraph& ops, const Composition& composition,
                     size_t rank) {
  Shape result(rank, 1);
  for (int k : composition.operators) {
    const Shape shape = ConstantShape(ops[k]);
    if (shape.size() > rank) return {};
    result = Broadcast(result, OfRank(rank, shape));
    if (result.empty()) return {};
  }
  return result;
}

Values Spread(const Values& values, Shape from, const Shape& to) {
  from = OfRank(to.size(), std::move(from));
  Values result(NumElements(to));
  for (size_t k = 0; k < result.size(); ++k) {
    int64_t rest = k, index = 0, stride = 1;
    for (size_t d = to.size(); d-- > 0;) {
      if (from[d] != 1) index += rest % to[d] * stride;
      rest /= to[d];
      stride *= from[d];
    }
    result[k] = values[index];
  }
  return result;
}

// Returns the factor by which a PReLU multiplies each element that is below 0,
// or nullopt if the composition is not a PReLU.
std::optional<Values> Slopes(const OperatorGraph& ops,
                             const Composition& composition,
                             const Shape& shape) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto weight_of = [&](const ImportedOperator& op, size_t k) {
    return Spread(Numbers(op.weights[k]), ConstantShape(op), shape);
  };
  const auto at = [&](double x) {
    return Evaluate(ops, composition, Values(NumElements(shape), x), weight_of);
  };
  Values slopes = at(-1.0);
  for (double& v : slopes) v = -v;
  const std::array<double, 5> samples = {
      1.0, 0.0, kInfinity, -kInfinity,
      std::numeric_limits<double>::quiet_NaN()};
  for (double x : samples) {
    const Values values = at(x);
    for (size_t k = 0; k < values.size(); ++k) {
      const double wanted = x > 0 ? x : x * slopes[k];
      if (!(values[k] == wanted ||
            (std::isnan(values[k]) && std::isnan(wanted)))) {
        return std::nullopt;
      }
    }
  }
  return slopes;
}

}  // namespace

bool FusePRelu(OperatorGraph& ops, int i) {
  Operator fused;
  fused.type = OperatorType::kBinary;
  fused.function = BinaryFunction::kPRelu;
  std::vector<float> slopes;
  const Composition composition = LargestComposition(
      ops, i,
      [&](int k) { return IsElementwise(ops, k) && IsHomogeneous(ops[k]); },
      [&](const Composition& larger) {
        const Shape* const output = ops.shapes().shape(ops[i].output);
        if (!output) return false;
        // A tensor of a block has rank 4 (feature maps) or 2 (rows of
        // features).
        const Shape shape =
            ConstantsShape(ops, larger, output->size() == 2 ? 2 : 4);
        // With a single factor for all elements, the composition is a leaky
        // Relu, which another rule finds.
        if (shape.empty() || NumElements(shape) == 1) return false;
        const std::optional<Values> found = Slopes(ops, larger, shape);
        if (!found) return false;
        slopes.assign(found->begin(), found->end());
        fused.operand = shape;
        return true;
      });
  if (composition.operators.empty()) return false;
  ReplaceComposition(ops, composition, std::move(fused),
                     {Weight(std::move(slopes))});
  return true;
}

}  // namespace ios::tf
