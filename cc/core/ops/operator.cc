#include "cc/core/ops/operator.h"

#include <cstddef>

#include "cc/core/document.h"
#include "cc/core/limits.h"
#include "cc/core/ops/attribute_values.h"
#include "cc/core/ops/attributes.h"
#include "cc/core/ops/definition.h"

namespace ios {
namespace {

// Checks, for VisitAttributes, that the integers of an attribute are within
// limits.
class LimitsCheck {
 public:
  explicit LimitsCheck(const Operator& op) : op_(op) {}

  const Status& status() const { return status_; }

  template <typename T>
  void operator()(const char* key, T Operator::* member,
                  const AttributeRules& rules) {
    Check(key, op_.*member, rules);
  }

 private:
  void Check(const char* key, int64_t number, const AttributeRules& rules) {
    if (!status_.ok() || (number >= rules.least && number <= rules.most)) {
      return;
    }
    const bool low = number < rules.least;
    status_ = InvalidArgument(std::string(key) + " must be at " +
                              (low ? "least " : "most ") +
                              std::to_string(low ? rules.least : rules.most) +
                              ", not " + std::to_string(number));
  }
  void Check(const char* key, const std::array<int64_t, 2>& pair,
             const AttributeRules& rules) {
    for (int64_t number : pair) Check(key, number, rules);
  }
  void Check(const char* key, const Shape& shape, const AttributeRules& rules) {
    for (int64_t number : shape) Check(key, number, rules);
  }
  void Check(const char* key, const Padding& p, const AttributeRules& rules) {
    for (int64_t number : {p.top, p.bottom, p.left, p.right}) {
      Check(key, number, rules);
    }
  }
  template <typename T>
  void Check(const char*, const T&, const AttributeRules&) {}

  const Operator& op_;
  Status status_;
};

// Checks the operator's attributes without looking at its inputs.
Status CheckAttributes(const Operator& op) {
  IOS_RETURN_IF_ERROR(CheckLimits(op));
  IOS_RETURN_IF_ERROR(CheckShape(op.operand));
  if (!MayCompute(op, op.algorithm)) {
    return InvalidArgument(
        std::string("this operator cannot be computed with the algorithm ") +
        ToString(op.algorithm));
  }
  IOS_RETURN_IF_ERROR(DefinitionOf(op.type).check(op));
  return CheckActivation(op.activation);
}

Status CheckInputs(const Operator& op, const std::vector<Shape>& inputs) {
  const OperatorDefinition& definition = DefinitionOf(op.type);
  const Arity arity = definition.arity(op);
  if (inputs.size() < arity.least || inputs.size() > arity.most) {
    return InvalidArgument(
        "an operator of this type and these attributes cannot have " +
        std::to_string(inputs.size()) + " inputs");
  }
  for (const Shape& shape : inputs) IOS_RETURN_IF_ERROR(CheckTensor(shape));
  if (definition.reads_images && inputs[0].size() != 4) {
    return NotAsWanted(inputs[0], "be [N,H,W,C]");
  }
  if (op.size_from_last_input && inputs.back().size() != 4) {
    return InvalidArgument("reference " + ToString(inputs.back()) +
                           " is not [N,H,W,C]");
  }
  return Status();
}

// Checks that weights and work are within limits.
Status CheckSizes(const Operator& op, const std::vector<Shape>& inputs,
                  const Shape& output) {
  IOS_RETURN_IF_ERROR(CheckShape(output));
  for (const Shape& shape : WeightShapes(op, inputs[0])) {
    IOS_RETURN_IF_ERROR(CheckShape(shape));
  }
  const int64_t flops = Flops(op, inputs, output);
  if (flops > kMaxFlops) {
    return InvalidArgument("the operator needs " + std::to_string(flops) +
                           " multiplications, additions and comparisons, which "
                           "is more than the limit");
  }
  return Status();
}

}  // namespace

const OperatorDefinition& DefinitionOf(OperatorType type) {
  static constexpr const OperatorDefinition* kDefinitions[] = {
#define IOS_OPERATOR(Name) &k##Name##Definition,
#include "cc/core/ops/operators.def"
  };
  return *kDefinitions[static_cast<size_t>(type)];
}

const char* ToString(OperatorType type) { return DefinitionOf(type).name; }

const char* ToString(Algorithm algorithm) { return NameOf(algorithm); }

StatusOr<Algorithm> AlgorithmFromString(const std::string& text) {
  for (const auto& [algorithm, name] : kAlgorithmNames) {
    if (text == name) return algorithm;
  }
  return InvalidArgument("there is no algorithm " + Quoted(text));
}

Status CheckLimits(const Operator& op) {
  LimitsCheck check(op);
  VisitAttributes(check);
  return check.status();
}

StatusOr<Shape> InferShape(const Operator& op, const std::vector<Shape>& in) {
  IOS_RETURN_IF_ERROR(CheckAttributes(op));
  IOS_RETURN_IF_ERROR(CheckInputs(op, in));
  IOS_ASSIGN_OR_RETURN(const Shape output, DefinitionOf(op.type).shape(op, in));
  if (op.residual && in.back() != output) {
    return InvalidArgument("residual " + ToString(in.back()) +
                           " cannot be added to the output " +
                           ToString(output));
  }
  IOS_RETURN_IF_ERROR(CheckSizes(op, in, output));
  return output;
}

std::vector<Shape> WeightShapes(const Operator& op, const Shape& input) {
  return DefinitionOf(op.type).weights(op, input);
}

int64_t Flops(const Operator& op, const std::vector<Shape>& inputs,
              const Shape& output) {
  return DefinitionOf(op.type).flops(op, inputs, output);
}

}  // namespace ios
