// Rules for Reshapes between feature maps and rows of a matrix.
#include <algorithm>

#include "cc/tensorflow/fuse/rules.h"

namespace ios::tf {
namespace {

using Kind = ImportedOperator::Kind;

// Returns whether operator `i` is a Reshape from [N,1,1,C] to [N,C].
bool IsSqueeze(const OperatorGraph& ops, int i) {
  const TensorRef from = ops[i].inputs[0], to = ops[i].output;
  const Shape *x = ops.shapes().shape(from), *y = ops.shapes().shape(to);
  return x && y && x->size() == 4 && y->size() == 2 && (*x)[1] == 1 &&
         (*x)[2] == 1 && ops.shapes().fixed_size(from) &&
         ops.shapes().same_dimensions(from, to, 0, 1);
}

// Returns whether the operator has a single input and computes each output
// pixel from the input pixel at the same position.
bool IsOfCells(const OperatorGraph& ops, int i) {
  const Operator& op = ops[i].op;
  switch (ops[i].kind == Kind::kOperator ? op.type : OperatorType::kConcat) {
    case OperatorType::kMatMul:
    case OperatorType::kActivation:
    case OperatorType::kScale:
    case OperatorType::kSoftmax:
      return true;
    case OperatorType::kNormalize:
      return !op.per_image;
    case OperatorType::kConv2D:
      return op.kernel == kOne && op.strides == kOne &&
             op.padding.type != PaddingType::kExplicit;
    default:
      return false;
  }
}

}  // namespace

bool KeepMaps(OperatorGraph& ops, int i) {
  if (!ops.IsReshape(i)) return false;
  const TensorRef from = ops[i].inputs[0];
  const Shape *x = ops.shapes().shape(from),
              *rows = ops.shapes().shape(ops[i].output);
  if (!x || !rows || x->size() != 4) return false;
  // The last dimension of the reshaped tensor may differ from C. Its rows are
  // then not pixels, and only operators that compute each number independently
  // are allowed.
  const bool has_cells = x->back() == rows->back();
  std::vector<int> chain;
  int back = ops.OnlyUser(i);
  for (; back >= 0 && !ops.IsReshape(back); back = ops.OnlyUser(back)) {
    if (!(has_cells ? IsOfCells(ops, back)
                    : ops.Is(back, OperatorType::kActivation))) {
      return false;
    }
    chain.push_back(back);
  }
  if (back < 0 || chain.empty()) return false;
  const TensorRef to = ops[back].output;
  const Shape* y = ops.shapes().shape(to);
  if (!y || y->size() != 4 || !ops.shapes().same_dimensions(from, to, 0, 3)) {
    return false;
  }
  if (!has_cells && (!ops.shapes().same_shape(from, to) ||
                     ops.layouts().layout(from) != ops.layouts().layout(to))) {
    return false;
  }
  for (int k : chain) {
    if (ops.Is(k, OperatorType::kMatMul))
      ops[k].op.type = OperatorType::kConv2D;
    ops[k].reshaped = true;
  }
  ops[chain.back()].reshaped = false;
  ops.SetInputs(chain.front(), {from});
  ops.Cover(chain.front(), i);
  ops.Remove(i);
  ops.TakeOver(chain.back(), back);
  return true;
}

bool KeepDims(OperatorGraph& ops, int i) {
  if (!ops.IsReshape(i)) return false;
  const Shape* x = ops.shapes().shape(ops[i].inputs[0]);
  const Shape* y = ops.shapes().shape(ops[i].output);
  if (!x || !y || x->size() != 2 || y->size() != 4 || x->back() != y->back() ||
      !ops.shapes().same_dimensions(ops[i].inputs[0], ops[i].output, 0, 1)) {
    return false;
  }
  // Finds the operators that compute the reshaped tensor, beginning with the
  // last one.
  const int last = ops.Producer(ops[i].inputs[0]);
  std::vector<int> found = {last};
  for (size_t n = 0; n < found.size(); ++n) {
    const int k = found[n];
    if (k < 0 || ops.IsReadElsewhere(ops[k].output)) return false;
    if (ops.Is(k, OperatorType::kGlobalPool) ||
        (ops.IsReshape(k) && IsSqueeze(ops, k))) {
      continue;
    }
    const bool is_sum =
        ops.Is(k, OperatorType::kAdd) ||
        (ops.Is(k, OperatorType::kBinary) && ops[k].op.operand.empty());
    if (!is_sum && !ops.Is(k, OperatorType::kMatMul) &&
        !ops.Is(k, OperatorType::kActivation) &&
        !ops.Is(k, OperatorType::kScale)) {
      return false;
    }
    for (const TensorRef& t : ops[k].inputs) {
      const int producer = ops.Producer(t);
      if (std::find(found.begin(), found.end(), producer) == found.end()) {
        found.push_back(producer);
      }
    }
  }
  const auto reads_only = [&](int k) {
    const std::vector<int>& users = ops.Users(k);
    return std::all_of(users.begin(), users.end(), [&](int user) {
      return ops.Device(user) == ops.Device(k) &&
             (user == i
                  ? k == last
                  : std::find(found.begin(), found.end(), user) != found.end());
    });
  };
  if (!std::all_of(found.begin(), found.end(), reads_only)) return false;
  if (ops.IsReshape(last)) return false;
  for (int k : found) {
    if (ops.Is(k, OperatorType::kMatMul))
      ops[k].op.type = OperatorType::kConv2D;
    if (ops.Is(k, OperatorType::kGlobalPool)) ops[k].op.keep_dims = true;
  }
  ops.TakeOver(last, i);
  for (int k : found) {
    if (ops.IsReshape(k)) ops.PushIntoUsers(k);
  }
  return true;
}

bool FlattenIntoMatMul(OperatorGraph& ops, int i) {
  if (!ops.IsReshape(i)) return false;
  const TensorRef from = ops[i].inputs[0];
  const Shape *x = ops.shapes().shape(from),
              *y = ops.shapes().shape(ops[i].output);
  if (!x || !y || x->size() != 4 || y->size() != 2 ||
      !ops.shapes().fixed_size(from) ||
      !ops.shapes().same_dimensions(from, ops[i].output, 0, 1) ||
      !ops.AllUsers(
          i, [&](int user) { return ops.Is(user, OperatorType::kMatMul); })) {
    return false;
  }
  const int64_t cells = (*x)[1] * (*x)[2], channels = (*x)[3];
  for (int user : ops.Users(i)) {
    ops[user].op.kernel = {(*x)[1], (*x)[2]};
    if (ops[i].from != Layout::kChannelsFirst || cells == 1) continue;
    // The graph flattened maps with channels first, [N,C,H,W]. The rows of the
    // weight matrix are reordered for channels last.
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
