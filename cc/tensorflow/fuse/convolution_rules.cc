// Rules that fold other operators into convolutions and sums.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "cc/tensorflow/fuse/rules.h"

namespace ios::tf {
namespace {

// Returns whether operator i depends on `tensor`.
bool IsAncestor(const OperatorGraph& ops, TensorRef tensor, int i) {
  std::set<int> seen;
  std::vector<int> open = {i};
  while (!open.empty()) {
    const int k = open.back();
    open.pop_back();
    for (const TensorRef& t : ops[k].inputs) {
      if (t == tensor) return true;
      const int producer = ops.Producer(t);
      if (producer >= 0 && seen.insert(producer).second) {
        open.push_back(producer);
      }
    }
  }
  return false;
}

}  // namespace

// Returns whether a scale by a * b equals a scale by `a` and then by `b`. This
// is not so if the product overflows to infinity or underflows to 0.
bool Multiply(float a, float b) {
  const float product = a * b;
  return std::isnormal(product) ||
         (product == 0.0f && (a == 0.0f || b == 0.0f));
}

bool ComposeScales(OperatorGraph& ops, int i) {
  // Scales are not joined if the shift is larger than this, because adding
  // numbers far from 0 loses digits.
  constexpr double kLargestShift = 100.0;
  const bool scales =
      ops.Is(i, OperatorType::kScale) || ops.Is(i, OperatorType::kNormalize);
  const int next = scales ? ops.OnlyUser(i) : -1;
  if (!ops.Is(next, OperatorType::kScale)) return false;
  std::vector<float>& scale = ops[i].weights[0].values;
  std::vector<float>& shift = ops[i].weights[1].values;
  const std::vector<float>& factors = ops[next].weights[0].values;
  const std::vector<float>& shifts = ops[next].weights[1].values;
  for (size_t c = 0; c < scale.size(); ++c) {
    const double moved = static_cast<double>(shift[c]) * factors[c];
    if (std::abs(moved) > kLargestShift) return false;
    if (!Multiply(scale[c], factors[c])) return false;
  }
  for (size_t c = 0; c < scale.size(); ++c) {
    const double s = factors[c], t = shifts[c];
    const double sum = shift[c] * s + t;
    // A scale without a shift stores the shift -0.0: adding it keeps the sign
    // of a zero, which adding 0.0 would not.
    shift[c] = shift[c] == 0.0f && t == 0.0 ? -0.0 : sum;
    scale[c] = scale[c] * s;
  }
  ops.TakeOver(i, next);
  return true;
}

bool FuseSepConv(OperatorGraph& ops, int i) {
  if (!ops.Is(i, OperatorType::kConv2D) || ops.HasEpilogue(i) ||
      ops[i].op.bias) {
    return false;
  }
  const Shape* x = ops.shapes().shape(ops[i].inputs[0]);
  const int next = ops.OnlyUser(i);
  if (!x || ops[i].op.groups != x->back() ||
      !ops.Is(next, OperatorType::kConv2D)) {
    return false;
  }
  Operator& op = ops[i].op;
  const Operator& pointwise = ops[next].op;
  if (pointwise.kernel != kOne || pointwise.strides != kOne ||
      pointwise.groups != 1 ||
      pointwise.padding.type == PaddingType::kExplicit) {
    return false;
  }
  op.type = OperatorType::kSepConv;
  op.name = pointwise.name;
  op.multiplier = op.filters / x->back();
  op.groups = 1;
  op.filters = pointwise.filters;
  op.bias = pointwise.bias;
  op.activation = pointwise.activation;
  ops[i].weights.insert(ops[i].weights.end(), ops[next].weights.begin(),
                        ops[next].weights.end());
  ops.TakeOver(i, next);
  return true;
}

bool FoldScale(OperatorGraph& ops, int i) {
  const bool matmul = ops.Is(i, OperatorType::kMatMul);
  if ((!ops.IsConvolution(i) && !matmul) || ops.HasEpilogue(i)) {
    return false;
  }
  const int next = ops.OnlyUser(i);
  if (!ops.Is(next, OperatorType::kScale)) return false;
  const std::vector<float>& scale = ops[next].weights[0].values;
  const std::vector<float>& shift = ops[next].weights[1].values;
  std::vector<Weight>& weights = ops[i].weights;
  const size_t last = ops.Is(i, OperatorType::kSepConv) ? 1 : 0;
  if (!weights[last].StaysFinite(scale)) return false;
  weights[last].Scale(scale);
  if (ops[i].op.bias) {
    std::vector<float>& bias = weights[last + 1].values;
    for (size_t c = 0; c < bias.size(); ++c) {
      bias[c] = bias[c] * scale[c] + shift[c];
    }
  } else if (std::any_of(shift.begin(), shift.end(),
                         [](float v) { return v != 0.0f; })) {
    ops[i].op.bias = true;
    weights.push_back(shift);
  }
  ops[i].op.activation = ops[next].op.activation;
  ops.TakeOver(i, next);
  return true;
}

bool FoldResidual(OperatorGraph& ops, int i) {
  if (!ops.Is(i, OperatorType::kAdd) || ops[i].inputs.size() != 2) return false;
  for (int k : {0, 1}) {
    const int conv = ops.Producer(ops[i].inputs[k]);
    const TensorRef other = ops[i].inputs[1 - k];
    if (!ops.IsConvolution(conv) || ops.IsTransposed(conv) ||
        ops.OnlyUser(conv) != i || ops.HasEpilogue(conv) ||
        !IsAncestor(ops, other, conv)) {
      continue;
    }
    ops[conv].op.residual = true;
    ops[conv].op.activation = ops[i].op.activation;
    ops.SetInputs(conv, {ops[conv].inputs[0], other});
    ops.TakeOver(conv, i);
    return true;
  }
  return false;
}

bool Flatten(OperatorGraph& ops, int i) {
  const bool nests = ops.Is(i, OperatorType::kConcat) ||
                     (ops.Is(i, OperatorType::kAdd) &&
                      ops[i].op.activation == Activation::kNone);
  const int next = nests ? ops.OnlyUser(i) : -1;
  if (!ops.Is(next, ops[i].op.type)) return false;
  std::vector<TensorRef> inputs;
  for (const TensorRef& t : ops[next].inputs) {
    if (t == ops[i].output) {
      inputs.insert(inputs.end(), ops[i].inputs.begin(), ops[i].inputs.end());
    } else {
      inputs.push_back(t);
    }
  }
  ops.SetInputs(next, std::move(inputs));
  ops.Cover(next, i);
  ops.Remove(i);
  return true;
}

}  // namespace ios::tf
