// Rules that recognise composed activations and fold activations into
// operators.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cc/core/ops/definition.h"
#include "cc/tensorflow/fuse/composition.h"
#include "cc/tensorflow/fuse/evaluate.h"
#include "cc/tensorflow/fuse/rules.h"
#include "cc/tensorflow/import/activation_match.h"
#include "cc/tensorflow/import/piecewise.h"

namespace ios::tf {
namespace {

using Kind = ImportedOperator::Kind;

// Returns whether each constant of the operator is one number for all elements.
bool IsUniform(const ImportedOperator& op) {
  return std::all_of(op.weights.begin(), op.weights.end(),
                     [](const Weight& weight) {
                       const std::vector<float>& w = weight.values;
                       return std::count(w.begin(), w.end(), w[0]) ==
                              static_cast<int64_t>(w.size());
                     });
}

template <typename T>
std::vector<T> ValuesOf(const OperatorGraph& ops,
                        const Composition& composition,
                        const std::vector<T>& samples) {
  const auto weight_of = [&](const ImportedOperator& op, size_t k) {
    return std::vector<T>(samples.size(), op.weights[k].values[0]);
  };
  return Evaluate(ops, composition, samples, weight_of);
}

// Returns all constants that occur in the composition.
std::vector<float> Constants(const OperatorGraph& ops,
                             const Composition& composition) {
  std::vector<float> constants;
  for (int i : composition.operators) {
    const ImportedOperator& op = ops[i];
    for (const Weight& weight : op.weights) {
      constants.push_back(weight.values[0]);
    }
    const Activation& activation = op.op.activation;
    constants.insert(constants.end(), {activation.alpha, activation.beta});
    if (op.kind != Kind::kSelect) continue;
    const Selection& selection = op.selection;
    constants.insert(constants.end(),
                     {selection.than, selection.first.value_or(0.0f),
                      selection.second.value_or(0.0f)});
  }
  std::sort(constants.begin(), constants.end());
  constants.erase(std::unique(constants.begin(), constants.end()),
                  constants.end());
  return constants;
}

// A value inside a composition, as a function of the composition's input: its
// linear pieces, if it is piecewise linear, and its turns, the inputs at which
// it may change from one formula to another.
struct Tracked {
  std::optional<Piecewise> lines;
  std::vector<double> turns;

  void Turn(const std::vector<double>& more) {
    turns.insert(turns.end(), more.begin(), more.end());
  }
};

Tracked ConstantValue(double value) { return {Piecewise::Constant(value), {}}; }

Tracked Combined(BinaryFunction function, const Tracked& a, const Tracked& b) {
  Tracked result;
  result.Turn(a.turns);
  result.Turn(b.turns);
  if (a.lines && b.lines) {
    result.lines = Piecewise::Combine(function, *a.lines, *b.lines);
  }
  for (const Tracked* one : {&a, &b}) {
    if (!result.lines && one->lines) result.Turn(one->lines->Where(0.0));
  }
  return result;
}

Tracked Activated(const Activation& activation, const Tracked& x) {
  Tracked result;
  result.Turn(x.turns);
  if (!x.lines) return result;
  result.lines = x.lines->Activate(activation);
  if (result.lines) return result;
  // Adds turns where the slope of an activation changes most.
  for (double value : {-20.0, -6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0, 20.0}) {
    result.Turn(x.lines->Where(value));
  }
  return result;
}

Tracked TrackedSelection(const ImportedOperator& op,
                         const std::map<TensorRef, Tracked>& values) {
  const Selection& selection = op.selection;
  const Tracked& x = values.at(op.inputs[0]);
  const auto choice = [&](std::optional<float> number, size_t input) {
    return number ? ConstantValue(*number) : values.at(op.inputs[input]);
  };
  const Tracked first = choice(selection.first, 1);
  const Tracked second = choice(selection.second, selection.first ? 1 : 2);
  Tracked result;
  for (const Tracked* one : {&x, &first, &second}) result.Turn(one->turns);
  if (!x.lines) return result;
  result.Turn(x.lines->Where(selection.than));
  if (first.lines && second.lines) {
    result.lines = x.lines->Select(
        {selection.than}, [&](double v) { return selection.Holds(v); },
        *first.lines, *second.lines);
  }
  return result;
}

// Returns the inputs at which the composition may change from one formula to
// another.
std::vector<double> Turns(const OperatorGraph& ops,
                          const Composition& composition) {
  std::map<TensorRef, Tracked> values = {
      {composition.input, {Piecewise::Identity(), {}}}};
  std::vector<int> operators = composition.operators;
  std::sort(operators.begin(), operators.end());
  for (int i : operators) {
    const ImportedOperator& op = ops[i];
    Tracked result;
    if (op.kind == Kind::kSelect) {
      result = TrackedSelection(op, values);
    } else {
      result = values.at(op.inputs[0]);
      const bool binary = op.op.type == OperatorType::kBinary;
      for (size_t k = 1; k < op.inputs.size(); ++k) {
        result = Combined(binary ? op.op.function : BinaryFunction::kAdd,
                          result, values.at(op.inputs[k]));
      }
      if (binary && op.inputs.size() == 1) {
        const Tracked number = ConstantValue(op.weights[0].values[0]);
        result = op.op.constant_first
                     ? Combined(op.op.function, number, result)
                     : Combined(op.op.function, result, number);
      }
      if (op.op.type == OperatorType::kScale) {
        result = Combined(BinaryFunction::kMultiply, result,
                          ConstantValue(op.weights[0].values[0]));
        result = Combined(BinaryFunction::kAdd, result,
                          ConstantValue(op.weights[1].values[0]));
      }
      result = Activated(op.op.activation, result);
    }
    if (result.lines) result.Turn(result.lines->ends());
    std::sort(result.turns.begin(), result.turns.end());
    result.turns.erase(std::unique(result.turns.begin(), result.turns.end()),
                       result.turns.end());
    values[op.output] = std::move(result);
  }
  return values.at(ops[composition.operators[0]].output).turns;
}

// Returns whether the composition equals `activation` at many more samples than
// were used to find the activation.
bool Proves(const OperatorGraph& ops, const Composition& composition,
            const Activation& activation) {
  const std::vector<double> samples = ProvingSamples(Turns(ops, composition));
  return HasValues(activation, samples, ValuesOf(ops, composition, samples));
}

SampledFunction Sample(const OperatorGraph& ops,
                       const Composition& composition) {
  SampledFunction function;
  function.rounded = ValuesOf(ops, composition, RoundedSamples());
  function.samples = ExactSamples(Constants(ops, composition));
  function.exact = ValuesOf(ops, composition, function.samples);
  return function;
}

}  // namespace

bool FuseActivation(OperatorGraph& ops, int i) {
  Operator fused;
  fused.type = OperatorType::kActivation;
  const Composition composition = LargestComposition(
      ops, i, [&](int k) { return IsElementwise(ops, k) && IsUniform(ops[k]); },
      [&](const Composition& larger) {
        const std::optional<Activation> match =
            MatchActivation(Sample(ops, larger));
        if (!match || !Proves(ops, larger, *match)) return false;
        fused.activation = *match;
        return true;
      });
  if (composition.operators.empty()) return false;
  ReplaceComposition(ops, composition, std::move(fused), {});
  return true;
}

bool FoldActivation(OperatorGraph& ops, int i) {
  const bool takes =
      ops[i].kind == Kind::kOperator && DefinitionOf(ops[i].op.type).activates;
  if (!takes || ops[i].op.activation != Activation::kNone) return false;
  const int next = ops.OnlyUser(i);
  if (!ops.Is(next, OperatorType::kActivation)) return false;
  ops[i].op.activation = ops[next].op.activation;
  ops.TakeOver(i, next);
  return true;
}

bool FoldPreActivation(OperatorGraph& ops, int i) {
  if (!ops.IsActivation(i, Activation::kRelu)) return false;
  const auto folds = [&](int user) {
    const ImportedOperator& op = ops[user];
    return ops.Is(user, OperatorType::kSepConv) &&
           op.op.pre_activation == Activation::kNone &&
           !(op.op.residual && op.inputs[1] == ops[i].output);
  };
  if (!ops.AllUsers(i, folds)) return false;
  for (int user : ops.Users(i)) ops[user].op.pre_activation = Activation::kRelu;
  ops.PushIntoUsers(i);
  return true;
}

}  // namespace ios::tf
