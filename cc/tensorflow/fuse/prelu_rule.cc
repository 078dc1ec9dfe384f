// PReLU as graphs compose it: x, or below 0 its product with a constant of each
// channel, or of each cell.
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "cc/tensorflow/fuse/composition.h"
#include "cc/tensorflow/fuse/rules.h"
#include "cc/tensorflow/import/activation_match.h"

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

// Whether f(t * x) = t * f(x) for every t > 0 and, of such functions, so does
// any composition: that is known for all numbers once it is for 1 and -1.
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
      return !op.weights.empty() && !op.op.swapped;
    case BinaryFunction::kAdd:
    case BinaryFunction::kSubtract:
    case BinaryFunction::kMaximum:
    case BinaryFunction::kMinimum:
      return op.weights.empty();
    default:
      return false;
  }
}

// The shape of what an operator multiplies or divides by, but for ones in
// front; of no dimensions if there is no such thing.
Shape ConstantShape(const ImportedOperator& op) {
  if (op.weights.empty() || op.kind == Kind::kSelect) return {};
  if (op.op.type == OperatorType::kBinary) return op.op.operand;
  return {static_cast<int64_t>(op.weights[0].values.size())};
}

// The smallest shape that all of these broadcast to, with `rank` dimensions;
// none if they differ in a dimension.
std::optional<Shape> Broadcast(const std::vector<Shape>& shapes, size_t rank) {
  Shape result(rank, 1);
  for (const Shape& shape : shapes) {
    if (shape.size() > rank) return std::nullopt;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = result[rank - shape.size() + d];
      if (size != 1 && shape[d] != 1 && shape[d] != size) return std::nullopt;
      size = std::max(size, shape[d]);
    }
  }
  return result;
}

Values Spread(const Values& values, Shape from, const Shape& to) {
  from.insert(from.begin(), to.size() - from.size(), 1);
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

// The composition's values where its input is `x`, one for each element of
// `shape`.
Values Evaluate(const OperatorGraph& ops, const Composition& composition,
                const Shape& shape, double x) {
  std::map<TensorRef, Values> values = {
      {composition.input, Values(NumElements(shape), x)}};
  std::vector<int> operators = composition.operators;
  std::sort(operators.begin(), operators.end());
  for (int i : operators) {
    const ImportedOperator& op = ops[i];
    Values result = values.at(op.inputs[0]);
    const auto combine = [&](BinaryFunction function, const Values& other) {
      for (size_t k = 0; k < result.size(); ++k) {
        result[k] = Exact(function, result[k], other[k]);
      }
    };
    if (op.kind == Kind::kSelect) {
      const Selection& selection = op.selection;
      const Values zeros(result.size(), 0.0);
      const Values& first = selection.first ? zeros : values.at(op.inputs[1]);
      const Values& second =
          selection.second ? zeros
                           : values.at(op.inputs[selection.first ? 1 : 2]);
      for (size_t k = 0; k < result.size(); ++k) {
        result[k] = selection.Holds(result[k]) ? first[k] : second[k];
      }
    } else {
      const bool binary = op.op.type == OperatorType::kBinary;
      for (size_t k = 1; k < op.inputs.size(); ++k) {
        combine(binary ? op.op.function : BinaryFunction::kAdd,
                values.at(op.inputs[k]));
      }
      if (!op.weights.empty()) {
        combine(binary ? op.op.function : BinaryFunction::kMultiply,
                Spread(Numbers(op.weights[0]), ConstantShape(op), shape));
      }
      for (double& v : result) v = Exact(op.op.activation, v);
    }
    values[op.output] = std::move(result);
  }
  return values.at(ops[composition.operators[0]].output);
}

// Below 0, the factor of each element; none if the composition is no PReLU.
std::optional<Values> Slopes(const OperatorGraph& ops,
                             const Composition& composition,
                             const Shape& shape) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto at = [&](double x) {
    return Evaluate(ops, composition, shape, x);
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
        std::vector<Shape> shapes;
        for (int k : larger.operators) shapes.push_back(ConstantShape(ops[k]));
        const Shape* const output = ops.graph().shape(ops[i].output);
        if (!output) return false;
        // Blocks know maps and rows of features.
        const std::optional<Shape> shape =
            Broadcast(shapes, output->size() == 2 ? 2 : 4);
        // Of one factor for all it is a leaky Relu.
        if (!shape || NumElements(*shape) == 1) return false;
        const std::optional<Values> found = Slopes(ops, larger, *shape);
        if (!found) return false;
        slopes.assign(found->begin(), found->end());
        fused.operand = *shape;
        return true;
      });
  if (composition.operators.empty()) return false;
  ReplaceComposition(ops, composition, std::move(fused),
                     {Weight(std::move(slopes))});
  return true;
}

}  // namespace ios::tf
