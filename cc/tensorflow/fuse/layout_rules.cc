// Rules for operators that change only the layout or type of a tensor, or that
// are not needed at all. The rules move or drop such operators.
#include <algorithm>
#include <set>
#include <utility>

#include "cc/tensorflow/fuse/rules.h"

namespace ios::tf {
namespace {

using Kind = ImportedOperator::Kind;

bool All(const std::vector<float>& values, float wanted) {
  return std::all_of(values.begin(), values.end(),
                     [&](float v) { return v == wanted; });
}

// Returns whether the output is as high and wide as the first input.
bool KeepsSize(const OperatorGraph& ops, int i) {
  const Operator& op = ops[i].op;
  return ops.Is(i, OperatorType::kScale) ||
         ops.Is(i, OperatorType::kActivation) ||
         (ops.Is(i, OperatorType::kConv2D) && op.strides == kOne &&
          (op.padding.type == PaddingType::kSame ||
           (op.padding.type == PaddingType::kValid && op.kernel == kOne)));
}

}  // namespace

bool AbsorbLayout(OperatorGraph& ops, int i) {
  if (ops[i].kind != Kind::kLayout) return false;
  const std::vector<int> users = ops.Users(i);
  if (std::any_of(users.begin(), users.end(),
                  [&](int user) { return ops[user].kind == Kind::kLayout; })) {
    return false;
  }
  if (ops.AllUsers(i, [](int) { return true; })) {
    ops.PushIntoUsers(i);
    return true;
  }
  const TensorRef input = ops[i].inputs[0];
  for (int user : std::set<int>(users.begin(), users.end())) {
    std::vector<TensorRef> inputs = ops[user].inputs;
    std::replace(inputs.begin(), inputs.end(), ops[i].output, input);
    ops.SetInputs(user, std::move(inputs));
  }
  ops.Remove(i);
  ops.SetReadElsewhere(input);
  return true;
}

bool MoveReference(OperatorGraph& ops, int i) {
  if (!ops[i].op.size_from_last_input) return false;
  const TensorRef at = ops[i].inputs.back();
  const int producer = ops.Producer(at);
  if (producer < 0 || ops.IsReadElsewhere(at) || !KeepsSize(ops, producer)) {
    return false;
  }
  int readers = 0;
  for (int user : ops.Users(at)) {
    if (!ops[user].op.size_from_last_input || ops[user].inputs[0] == at)
      ++readers;
  }
  const TensorRef to = ops[producer].inputs[0];
  const Shape* shape = ops.shapes().shape(to);
  if (readers > 1 || !shape || shape->size() != 4) return false;
  ops.SetInputs(i, {ops[i].inputs[0], to});
  return true;
}

bool AbsorbCasts(OperatorGraph& ops, int i) {
  if (ops[i].kind != Kind::kCast || ops[i].dtype != DataType::kFloat32) {
    return false;
  }
  std::vector<int> chain;
  int next = ops.OnlyUser(i);
  while (ops.Is(next, OperatorType::kScale) ||
         ops.Is(next, OperatorType::kActivation) ||
         ops.Is(next, OperatorType::kGlobalPool)) {
    chain.push_back(next);
    next = ops.OnlyUser(next);
  }
  const tensorflow::DataType narrow = ops.shapes().dtype(ops[i].inputs[0]);
  if (chain.empty() || next < 0 || ops[next].kind != Kind::kCast ||
      ops.shapes().dtype(ops[next].output) != narrow) {
    return false;
  }
  for (int k : chain) ops[k].dtype = ops[next].dtype;
  ops.TakeOver(chain.back(), next);
  ops.PushIntoUsers(i);
  return true;
}

bool DropUnread(OperatorGraph& ops, int i) {
  if (!ops.Users(i).empty() || ops.IsReadElsewhere(ops[i].output)) return false;
  ops.Remove(i);
  return true;
}

bool DropIdentityScale(OperatorGraph& ops, int i) {
  if (!ops.Is(i, OperatorType::kScale) ||
      !All(ops[i].weights[0].values, 1.0f) ||
      !All(ops[i].weights[1].values, 0.0f)) {
    return false;
  }
  const int before = ops.Producer(ops[i].inputs[0]);
  if (before >= 0 && ops.OnlyUser(before) == i &&
      ops[before].kind == Kind::kOperator) {
    ops.TakeOver(before, i);
    return true;
  }
  if (!ops.AllUsers(i, [](int) { return true; })) return false;
  ops.PushIntoUsers(i);
  return true;
}

}  // namespace ios::tf
