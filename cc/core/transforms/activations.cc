#include "cc/core/transforms/activations.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/core/ops/definition.h"

namespace ios {
namespace {

// Returns whether an activation of a concat may move to the operator `op`,
// which computes one of the concat's inputs. On every device, operators of this
// type must write into a part of the concat as fast as into a separate tensor.
bool TakesActivation(const Operator& op) {
  const OperatorDefinition& definition = DefinitionOf(op.type);
  return definition.elementwise && definition.activates &&
         op.activation == Activation::kNone;
}

}  // namespace

void ActivateBeforeConcats(const std::vector<Shape>& shapes, Absorbs absorbs,
                           Block* block) {
  const Readers readers(*block);
  std::vector<Operator>& operators = block->operators;
  for (size_t i = 0; i < operators.size(); ++i) {
    Operator& last = operators[i];
    if (last.type != OperatorType::kActivation) continue;
    const int at = last.inputs[0];
    if (readers.Only(at) < 0 || operators[at].type != OperatorType::kConcat ||
        !absorbs(operators[at], last, shapes[at], shapes[i])) {
      continue;
    }
    Operator& first = operators[at];
    std::vector<int> parts = first.inputs, taken, left;
    for (int ref : parts) {
      const bool takes =
          readers.Only(ref) >= 0 && TakesActivation(operators[ref]);
      (takes ? taken : left).push_back(ref);
    }
    if (left.size() > 1 || taken.empty() || parts.size() < 2) continue;
    for (int ref : taken) operators[ref].activation = last.activation;
    if (left.empty()) {
      first.inputs.pop_back();
      parts = {at, parts.back()};
    } else {
      std::replace(parts.begin(), parts.end(), left[0], at);
      first = std::exchange(last, first);
      first.inputs = left;
    }
    last.type = OperatorType::kConcat;
    last.activation = Activation::kNone;
    last.inputs = parts;
  }
}

int ReaderOfTerms(const Block& block, const std::vector<Shape>& shapes,
                  const Readers& readers, Absorbs absorbs, int sum) {
  const int reader = readers.Only(sum);
  const std::vector<int>& terms = block.operators[sum].inputs;
  if (reader < 0 || block.operators[sum].type != OperatorType::kAdd ||
      std::any_of(
          terms.begin(), terms.end(),
          [&](int ref) {
            return ref >= 0 &&
                   block.operators[ref].type == OperatorType::kConcat;
          })) {
    return -1;
  }
  const Operator& op = block.operators[reader];
  const bool absorbed =
      op.inputs[0] == sum &&
      absorbs(block.operators[sum], op, shapes[sum], shapes[reader]);
  return absorbed ? reader : -1;
}

void ActivateAfterSums(const std::vector<Shape>& shapes, Absorbs absorbs,
                       Block* block) {
  const Readers readers(*block);
  for (size_t i = 0; i < block->operators.size(); ++i) {
    Operator& sum = block->operators[i];
    const int reader = ReaderOfTerms(*block, shapes, readers, absorbs, i);
    if (reader < 0 || sum.activation != Activation::kRelu) continue;
    block->operators[reader].pre_activation =
        std::exchange(sum.activation, Activation::kNone);
  }
}

}  // namespace ios
