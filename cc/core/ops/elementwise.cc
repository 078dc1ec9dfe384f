// The definitions of the operators Add, Binary, Activation and Scale.

#include <algorithm>
#include <cmath>

#include "cc/core/limits.h"
#include "cc/core/ops/definition.h"

namespace ios {
constexpr OperatorDefinition kAddDefinition = [] {
  OperatorDefinition add{"add"};
  add.arity = [](const Operator&) { return Arity{2, kMaxOperatorInputs}; };
  add.shape = [](const Operator&, const Shapes& in) -> StatusOr<Shape> {
    for (const Shape& shape : in) {
      if (shape != in[0]) {
        return InvalidArgument("inputs " + ToString(in[0]) + " and " +
                               ToString(shape) +
                               " cannot be added, because their shapes differ");
      }
    }
    return in[0];
  };
  add.channels = OperatorDefinition::EachChannel;
  add.activates = add.elementwise = true;
  return add;
}();

constexpr OperatorDefinition kBinaryDefinition = [] {
  OperatorDefinition binary{"binary"};
  binary.arity = [](const Operator& op) -> Arity {
    const size_t inputs = op.operand.empty() ? 2 : 1;
    return {inputs, inputs};
  };
  binary.shape = [](const Operator& op, const Shapes& in) -> StatusOr<Shape> {
    const Shape& y = op.operand.empty() ? in[1] : op.operand;
    const Shape output = Broadcast(in[0], y);
    if (!output.empty()) return output;
    return InvalidArgument("inputs " + ToString(in[0]) + " and " + ToString(y) +
                           " cannot be broadcast to the same shape");
  };
  binary.weights = [](const Operator& op, const Shape&) {
    return op.operand.empty() ? Shapes() : Shapes{op.operand};
  };
  binary.flops = [](const Operator&, const Shapes&, const Shape& output) {
    return 2 * NumElements(output);
  };
  binary.channels = OperatorDefinition::EachChannel;
  binary.activates = binary.elementwise = true;
  return binary;
}();

constexpr OperatorDefinition kActivationDefinition = [] {
  OperatorDefinition activation{"activation"};
  activation.channels = OperatorDefinition::EachChannel;
  activation.elementwise = true;
  return activation;
}();

constexpr OperatorDefinition kScaleDefinition = [] {
  OperatorDefinition scale{"scale"};
  scale.weights = [](const Operator&, const Shape& x) {
    return Shapes{{x.back()}, {x.back()}};
  };
  scale.channels = OperatorDefinition::EachChannel;
  scale.activates = scale.elementwise = true;
  return scale;
}();

double Exact(BinaryFunction function, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  switch (function) {
    case BinaryFunction::kMultiply:
      return a * b;
    case BinaryFunction::kAdd:
      return a + b;
    case BinaryFunction::kSubtract:
      return a - b;
    case BinaryFunction::kDivide:
      return a / b;
    case BinaryFunction::kMaximum:
      return std::max(a, b);
    case BinaryFunction::kMinimum:
      return std::min(a, b);
    case BinaryFunction::kSquaredDifference:
      return (a - b) * (a - b);
    case BinaryFunction::kPRelu:
      return a > 0 ? a : a * b;
  }
  return a;
}

}  // namespace ios
