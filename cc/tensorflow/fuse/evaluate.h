// Computes the values of compositions.
#ifndef IOS_TF_CC_TENSORFLOW_FUSE_EVALUATE_H_
#define IOS_TF_CC_TENSORFLOW_FUSE_EVALUATE_H_

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/broadcast.h"
#include "cc/tensorflow/fuse/composition.h"
#include "cc/tensorflow/import/activation_match.h"

namespace ios::tf {

// Both functions apply an activation to each number of a row, in place: in
// float32 with the engine's kernels, or in float64.
inline void Activate(const Activation& activation, std::vector<float>* row) {
  cpu::ActivateRow(row->data(), row->size(), activation, row->data());
}
inline void Activate(const Activation& activation, std::vector<double>* row) {
  for (double& v : *row) v = Exact(activation, v);
}
inline void Combine(BinaryFunction function, const std::vector<float>& other,
                    std::vector<float>* row) {
  cpu::BinaryRow(function, {row->data()}, {other.data()}, row->size(),
                 row->data());
}
inline void Combine(BinaryFunction function, const std::vector<double>& other,
                    std::vector<double>* row) {
  for (size_t k = 0; k < row->size(); ++k) {
    (*row)[k] = Exact(function, (*row)[k], other[k]);
  }
}

template <typename T>
using Rows = std::map<TensorRef, std::vector<T>>;

template <typename T>
std::vector<T> Selected(const ImportedOperator& op, const Rows<T>& values) {
  const Selection& selection = op.selection;
  const std::vector<T>& x = values.at(op.inputs[0]);
  const auto choice = [&](std::optional<float> number, size_t input) {
    return number ? std::vector<T>(x.size(), *number)
                  : values.at(op.inputs[input]);
  };
  std::vector<T> result = choice(selection.first, 1);
  const std::vector<T> second =
      choice(selection.second, selection.first ? 1 : 2);
  for (size_t k = 0; k < x.size(); ++k) {
    if (!selection.Holds(x[k])) result[k] = second[k];
  }
  return result;
}

// Returns the values of a composition (operators that together compute one
// function of a tensor) if its input has the values `samples`.
// weight_of(op, k) returns weight k of an operator, with one number for each
// sample.
template <typename T, typename WeightOf>
std::vector<T> Evaluate(const OperatorGraph& ops,
                        const Composition& composition,
                        const std::vector<T>& samples, WeightOf weight_of) {
  using Kind = ImportedOperator::Kind;
  Rows<T> values = {{composition.input, samples}};
  std::vector<int> operators = composition.operators;
  std::sort(operators.begin(), operators.end());
  for (int i : operators) {
    const ImportedOperator& op = ops[i];
    if (op.kind == Kind::kSelect) {
      values[op.output] = Selected(op, values);
      continue;
    }
    const bool binary = op.op.type == OperatorType::kBinary;
    std::vector<T> result = values.at(op.inputs[0]);
    std::vector<std::vector<T>> others;
    for (size_t k = 1; k < op.inputs.size(); ++k) {
      others.push_back(values.at(op.inputs[k]));
    }
    if (binary && others.empty()) {
      others.push_back(weight_of(op, 0));
      if (op.op.constant_first) result.swap(others[0]);
    }
    for (const std::vector<T>& other : others) {
      Combine(binary ? op.op.function : BinaryFunction::kAdd, other, &result);
    }
    if (op.op.type == OperatorType::kScale) {
      const std::vector<T> scale = weight_of(op, 0), shift = weight_of(op, 1);
      for (size_t k = 0; k < result.size(); ++k) {
        result[k] = result[k] * scale[k] + shift[k];
      }
    }
    Activate(op.op.activation, &result);
    values[op.output] = std::move(result);
  }
  return values.at(ops[composition.operators[0]].output);
}

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_FUSE_EVALUATE_H_
