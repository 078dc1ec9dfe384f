#include "cc/tensorflow/fuse/composition.h"

#include <algorithm>
#include <utility>

#include "cc/core/ops/definition.h"

namespace ios::tf {

using Kind = ImportedOperator::Kind;

bool IsElementwise(const OperatorGraph& ops, int i) {
  if (i < 0) return false;
  const ImportedOperator& op = ops[i];
  const bool computes =
      op.kind == Kind::kSelect ||
      (op.kind == Kind::kOperator && DefinitionOf(op.op.type).elementwise);
  return computes &&
         std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorRef t) {
           return ops.shapes().same_shape(t, op.output);
         });
}

void ReplaceComposition(OperatorGraph& ops, const Composition& composition,
                        Operator by, std::vector<Weight> weights) {
  const int last = composition.operators[0];
  by.name = std::move(ops[last].op.name);
  ops[last].kind = Kind::kOperator;
  ops[last].op = std::move(by);
  ops[last].weights = std::move(weights);
  ops.SetInputs(last, {composition.input});
  for (int k : composition.operators) {
    if (k == last) continue;
    ops.Cover(last, k);
    ops.Remove(k);
  }
}

}  // namespace ios::tf
