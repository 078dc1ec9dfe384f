// Rules for padding, strides and repeated pixels.
#include <algorithm>
#include <set>
#include <utility>

#include "cc/tensorflow/fuse/rules.h"

namespace ios::tf {
namespace {

// Turns a Pad into a depthwise 1x1 convolution, and returns false if the Pad
// cuts pixels off. (A convolution with a larger window could also cut pixels
// off, but it would multiply infinite neighbors by zero, which gives NaN.)
bool PadToConvolution(OperatorGraph& ops, int i) {
  const Shape* x = ops.shapes().shape(ops[i].inputs[0]);
  Operator& op = ops[i].op;
  const Padding& p = op.padding;
  if (!x || std::min({p.top, p.bottom, p.left, p.right}) < 0) return false;
  op.type = OperatorType::kConv2D;
  op.groups = op.filters = x->back();
  ops[i].weights = {std::vector<float>(x->back(), 1.0f)};
  return true;
}

// Returns whether the operator's window fits into images of all sizes. If it
// does not, TensorFlow reports an error for images that are too small. The
// strides must then not be folded, because the operator would return an image
// without pixels instead of an error.
bool TakesAllSizes(const OperatorGraph& ops, int i) {
  const Operator& op = ops[i].op;
  const Padding& p = op.padding;
  const std::array<int64_t, 2> padding = {p.top + p.bottom, p.left + p.right};
  for (int k : {0, 1}) {
    const int64_t reach = (op.kernel[k] - 1) * op.dilations[k];
    if (reach > padding[k] && !ops.shapes().fixed(ops[i].inputs[0], 1 + k)) {
      return false;
    }
  }
  return true;
}

bool IsNonNegative(const OperatorGraph& ops, int i) {
  if (i < 0) return false;
  if (ops.Is(i, OperatorType::kPool)) {
    return IsNonNegative(ops, ops.Producer(ops[i].inputs[0]));
  }
  switch (ops[i].op.activation.kind) {
    case Activation::kRelu:
    case Activation::kRelu6:
    case Activation::kSigmoid:
    case Activation::kHardSigmoid:
    case Activation::kSoftplus:
    case Activation::kExp:
    case Activation::kSquare:
    case Activation::kAbs:
      return true;
    case Activation::kMaximum:
    case Activation::kClip:
      return ops[i].op.activation.alpha >= 0.0f;
    default:
      return false;
  }
}

// Returns whether operator `i` is a resize that repeats one pixel over an
// image.
bool IsSpreadCell(const OperatorGraph& ops, int i) {
  if (!ops.Is(i, OperatorType::kResize) ||
      ops[i].op.interpolation != Interpolation::kNearest) {
    return false;
  }
  const TensorRef x = ops[i].inputs[0];
  const Shape* cell = ops.shapes().shape(x);
  return cell && cell->size() == 4 && (*cell)[1] == 1 && (*cell)[2] == 1 &&
         ops.shapes().fixed(x, 1) && ops.shapes().fixed(x, 2);
}

// Returns whether operator `i` is a product with ones that repeats one channel
// over several channels.
bool IsSpreadChannel(const OperatorGraph& ops, int i) {
  if (!ops.Is(i, OperatorType::kBinary) ||
      ops[i].op.function != BinaryFunction::kMultiply ||
      ops[i].op.operand.size() != 4 || !ops[i].weights[0].constant()) {
    return false;
  }
  const Shape* x = ops.shapes().shape(ops[i].inputs[0]);
  const std::vector<float>& factors = ops[i].weights[0].values;
  return x && x->back() == 1 &&
         ops[i].op.operand.back() == static_cast<int64_t>(factors.size()) &&
         std::count(factors.begin(), factors.end(), 1.0f) ==
             static_cast<int64_t>(factors.size());
}

// Changes the padding of a transposed convolution to SAME or VALID, if this
// cuts off the same number of pixels for every size.
void NormaliseCut(Operator* op) {
  Padding& p = op->padding;
  if (p.type != PaddingType::kExplicit) return;
  std::array<int64_t, 4> same;
  for (int k : {0, 1}) {
    const int64_t cut =
        (op->kernel[k] - 1) * op->dilations[k] + 1 - op->strides[k];
    same[2 * k] = std::max<int64_t>(cut, 0) / 2;
    same[2 * k + 1] = cut - same[2 * k];
  }
  const std::array<int64_t, 4> cut = {p.top, p.bottom, p.left, p.right};
  if (cut == same || cut == std::array<int64_t, 4>{}) {
    const bool valid = cut == std::array<int64_t, 4>{};
    p = Padding();
    p.type = valid ? PaddingType::kValid : PaddingType::kSame;
  }
}

}  // namespace

bool ComposeRepeats(OperatorGraph& ops, int i) {
  const auto repeats = [&](int k) {
    return ops.Is(k, OperatorType::kResize) &&
           ops[k].op.interpolation == Interpolation::kNearest &&
           ops[k].op.coordinates == Coordinates::kHalfPixel &&
           ops[k].op.output_size == std::array<int64_t, 2>{0, 0} &&
           !ops[k].op.size_from_last_input;
  };
  const int next = repeats(i) ? ops.OnlyUser(i) : -1;
  if (next < 0 || !repeats(next)) return false;
  for (int d : {0, 1}) ops[i].op.factors[d] *= ops[next].op.factors[d];
  ops.TakeOver(i, next);
  return true;
}

bool DropSpread(OperatorGraph& ops, int i) {
  if (!IsSpreadCell(ops, i) && !IsSpreadChannel(ops, i)) return false;
  const TensorRef y = ops[i].output;
  const auto broadcasts = [&](int user) {
    const bool is_sum = ops.Is(user, OperatorType::kAdd);
    if (!is_sum && !ops.Is(user, OperatorType::kBinary)) return false;
    const std::vector<TensorRef>& inputs = ops[user].inputs;
    if (inputs.size() != 2 || !ops[user].op.operand.empty()) return false;
    const TensorRef other = inputs[inputs[0] == y ? 1 : 0];
    return other != y && ops.shapes().same_shape(other, y);
  };
  if (!ops.AllUsers(i, broadcasts)) return false;
  for (int user : ops.Users(i)) {
    if (!ops.Is(user, OperatorType::kAdd)) continue;
    ops[user].op.type = OperatorType::kBinary;
    ops[user].op.function = BinaryFunction::kAdd;
  }
  ops.PushIntoUsers(i);
  return true;
}

bool ComposePads(OperatorGraph& ops, int i) {
  const int next = ops.IsZeroPad(i) ? ops.OnlyUser(i) : -1;
  if (!ops.IsZeroPad(next)) return false;
  Padding& a = ops[i].op.padding;
  const Padding& b = ops[next].op.padding;
  // If the first operator cuts pixels off and the second pads with zeros, they
  // cannot be joined, because padding does not restore the pixels.
  const auto loses = [](int64_t first, int64_t second) {
    return first < 0 && second > 0;
  };
  if (loses(a.top, b.top) || loses(a.bottom, b.bottom) ||
      loses(a.left, b.left) || loses(a.right, b.right)) {
    return false;
  }
  a = {PaddingType::kExplicit, a.top + b.top, a.bottom + b.bottom,
       a.left + b.left, a.right + b.right};
  ops.TakeOver(i, next);
  return true;
}

bool FoldSubsampling(OperatorGraph& ops, int i) {
  // An average pool of single pixels only skips pixels. A max pool also changes
  // NaN and negative infinity to the lowest float, so it stays.
  if (!ops.Is(i, OperatorType::kPool) || ops[i].op.pool != PoolKind::kAvg ||
      ops[i].op.kernel != kOne ||
      ops[i].op.padding.type == PaddingType::kExplicit) {
    return false;
  }
  const int before = ops.Producer(ops[i].inputs[0]);
  if (ops.IsZeroPad(before) && ops.OnlyUser(before) == i) {
    PadToConvolution(ops, before);
  }
  if (ops.Is(before, OperatorType::kConv2D) && ops.OnlyUser(before) == i &&
      ops[before].op.strides == kOne &&
      ops[before].op.padding.type != PaddingType::kSame &&
      TakesAllSizes(ops, before)) {
    ops[before].op.strides = ops[i].op.strides;
    ops.TakeOver(before, i);
    return true;
  }
  const auto folds = [&](int user) {
    const Operator& op = ops[user].op;
    return ops.Is(user, OperatorType::kConv2D) && op.kernel == kOne &&
           op.strides == kOne && op.padding.type != PaddingType::kExplicit;
  };
  if (!ops.AllUsers(i, folds)) return false;
  for (int user : ops.Users(i)) ops[user].op.strides = ops[i].op.strides;
  ops.PushIntoUsers(i);
  return true;
}

bool FoldPad(OperatorGraph& ops, int i) {
  if (!ops.IsZeroPad(i)) return false;
  const std::vector<int>& users = ops.Users(i);
  const Shape* x = ops.shapes().shape(ops[i].inputs[0]);
  const bool relu = IsNonNegative(ops, ops.Producer(ops[i].inputs[0]));
  const Padding pad = ops[i].op.padding;
  const auto folds = [&](int user) {
    const Operator& op = ops[user].op;
    if (op.residual && ops[user].inputs[1] == ops[i].output) return false;
    // SAME pads a fixed number of pixels only if the stride is 1.
    const bool fixed =
        op.padding.type != PaddingType::kSame || op.strides == kOne;
    if (ops.IsConvolution(user) && !ops.IsTransposed(user)) return fixed;
    return ops.Is(user, OperatorType::kPool) && op.pool == PoolKind::kMax &&
           relu && op.padding.type == PaddingType::kValid &&
           std::max(pad.top, pad.bottom) < op.kernel[0] &&
           std::max(pad.left, pad.right) < op.kernel[1];
  };
  if (!x || std::min({pad.top, pad.bottom, pad.left, pad.right}) < 0 ||
      !ops.AllUsers(i, folds)) {
    return false;
  }
  for (int user : std::set<int>(users.begin(), users.end())) {
    Operator& op = ops[user].op;
    const std::array<int64_t, 4> own = ExplicitPadding(op, *x);
    op.padding = {PaddingType::kExplicit, pad.top + own[0], pad.bottom + own[1],
                  pad.left + own[2], pad.right + own[3]};
    // The zeros must count in a max pool, which ignores NaN: if a window
    // contains only NaN and zeros of the padding, the result is 0.
    op.pads_zeros = op.type == OperatorType::kPool;
  }
  ops.PushIntoUsers(i);
  return true;
}

bool NormalisePadding(OperatorGraph& ops, int i) {
  if (!ops.IsConvolution(i)) return false;
  Operator& op = ops[i].op;
  Padding& p = op.padding;
  const PaddingType before = p.type;
  if (ops.IsTransposed(i)) {
    NormaliseCut(&op);
    return p.type != before;
  }
  if (p.type == PaddingType::kExplicit && !p.top && !p.bottom && !p.left &&
      !p.right) {
    p.type = PaddingType::kValid;
  }
  const int64_t h = (op.kernel[0] - 1) * op.dilations[0];
  const int64_t w = (op.kernel[1] - 1) * op.dilations[1];
  if (op.strides == kOne && p.type == PaddingType::kExplicit &&
      p.top == h / 2 && p.bottom == h - h / 2 && p.left == w / 2 &&
      p.right == w - w / 2) {
    p = Padding();
    p.type = PaddingType::kSame;
  }
  if (op.kernel == kOne && p.type == PaddingType::kSame) {
    p.type = PaddingType::kValid;
  }
  return p.type != before;
}

}  // namespace ios::tf
