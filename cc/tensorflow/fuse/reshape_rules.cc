// Rules that read and write maps as rows of a matrix, and back.

#include "cc/tensorflow/fuse/rules.h"

namespace ios::tf {
namespace {

using Kind = ImportedOperator::Kind;

// Whether a Reshape makes [N,C] of [N,1,1,C].
bool IsSqueeze(const OperatorGraph& ops, int i) {
  const TensorRef from = ops[i].inputs[0], to = ops[i].output;
  const Shape *x = ops.graph().shape(from), *y = ops.graph().shape(to);
  return x && y && x->size() == 4 && y->size() == 2 && (*x)[1] == 1 &&
         (*x)[2] == 1 && ops.graph().fixed_size(from) &&
         ops.graph().same_dimensions(from, to, 0, 1);
}

}  // namespace

bool FuseDenseOfMaps(OperatorGraph& ops, int i) {
  if (!ops.Is(i, OperatorType::kMatMul)) return false;
  const int before = ops.Producer(ops[i].inputs[0]), after = ops.OnlyUser(i);
  if (before < 0 || after < 0 || !ops.IsReshape(before) ||
      !ops.IsReshape(after) || ops.OnlyUser(before) != i) {
    return false;
  }
  const Shape* x = ops.graph().shape(ops[before].inputs[0]);
  const Shape* y = ops.graph().shape(ops[after].output);
  if (!x || !y || x->size() != 4 || y->size() != 4 ||
      x->back() != ops.graph().shape(ops[before].output)->back() ||
      !ops.graph().same_dimensions(ops[before].inputs[0], ops[after].output, 0,
                                   3)) {
    return false;
  }
  ops[i].op.type = OperatorType::kConv2D;
  ops.SetInputs(i, ops[before].inputs);
  ops.Cover(i, before);
  ops.Remove(before);
  ops.TakeOver(i, after);
  return true;
}

bool KeepDims(OperatorGraph& ops, int i) {
  if (!ops.IsReshape(i)) return false;
  const Shape* x = ops.graph().shape(ops[i].inputs[0]);
  const Shape* y = ops.graph().shape(ops[i].output);
  if (!x || !y || x->size() != 2 || y->size() != 4 || x->back() != y->back() ||
      !ops.graph().same_dimensions(ops[i].inputs[0], ops[i].output, 0, 1)) {
    return false;
  }
  std::vector<int> chain;
  int user = i;
  for (int k = ops.Producer(ops[i].inputs[0]);;
       k = ops.Producer(ops[k].inputs[0])) {
    if (k < 0 || ops.OnlyUser(k) != user) return false;
    chain.push_back(k);
    user = k;
    if (ops.Is(k, OperatorType::kGlobalPool)) break;
    if (ops.IsReshape(k) && IsSqueeze(ops, k)) break;
    if (!ops.Is(k, OperatorType::kMatMul) &&
        !ops.Is(k, OperatorType::kActivation) &&
        !ops.Is(k, OperatorType::kScale)) {
      return false;
    }
  }
  for (int k : chain) {
    if (ops.Is(k, OperatorType::kMatMul))
      ops[k].op.type = OperatorType::kConv2D;
    if (ops.Is(k, OperatorType::kGlobalPool)) ops[k].op.keep_dims = true;
  }
  ops.TakeOver(chain[0], i);
  if (ops.IsReshape(chain.back())) ops.PushIntoUsers(chain.back());
  return true;
}

bool FlattenIntoMatMul(OperatorGraph& ops, int i) {
  if (!ops.IsReshape(i)) return false;
  const TensorRef from = ops[i].inputs[0];
  const Shape *x = ops.graph().shape(from),
              *y = ops.graph().shape(ops[i].output);
  if (!x || !y || x->size() != 4 || y->size() != 2 ||
      !ops.graph().fixed_size(from) ||
      !ops.graph().same_dimensions(from, ops[i].output, 0, 1) ||
      !ops.AllUsers(
          i, [&](int user) { return ops.Is(user, OperatorType::kMatMul); })) {
    return false;
  }
  const int64_t cells = (*x)[1] * (*x)[2], channels = (*x)[3];
  for (int user : ops.Users(i)) {
    ops[user].op.kernel = {(*x)[1], (*x)[2]};
    if (ops[i].from != Layout::kChannelsFirst || cells == 1) continue;
    // Flattened were channels, each of all cells.
    ops[user].weights[0].Swap({1, channels, cells, ops[user].op.filters});
  }
  ops.PushIntoUsers(i);
  return true;
}

bool FinishReshape(OperatorGraph& ops, int i) {
  if (!ops.IsReshape(i)) return false;
  const int before = ops.Producer(ops[i].inputs[0]);
  if (before < 0 || ops.Users(i).empty() || !IsSqueeze(ops, i) ||
      ops.IsReadElsewhere(ops[i].output)) {
    return false;
  }
  ops[i].kind = Kind::kOperator;
  ops[i].op.type = OperatorType::kGlobalPool;
  ops[i].op.pool = PoolKind::kAvg;
  return true;
}

}  // namespace ios::tf
