#include "cc/engine/cpu/kernels/broadcast.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/broadcast.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

// The result is NaN if either operand is NaN, as in TensorFlow.
inline float Maximum(float a, float b) { return a > b || a != a ? a : b; }
inline float Minimum(float a, float b) { return a < b || a != a ? a : b; }

// Defines a function NAME that computes the expression VALUE of a and b for a
// row. Each combination of steps has its own loop with constant steps, so that
// the compiler can vectorise it.
#define IOS_BINARY_ROW(NAME, VALUE)                                         \
  void NAME(const float* x, int64_t x_step, const float* y, int64_t y_step, \
            int64_t n, float* out) {                                        \
    if (x_step != 0 && y_step != 0) {                                       \
      for (int64_t i = 0; i < n; ++i) {                                     \
        const float a = x[i], b = y[i];                                     \
        out[i] = VALUE;                                                     \
      }                                                                     \
    } else if (x_step != 0) {                                               \
      const float b = *y;                                                   \
      for (int64_t i = 0; i < n; ++i) {                                     \
        const float a = x[i];                                               \
        out[i] = VALUE;                                                     \
      }                                                                     \
    } else {                                                                \
      const float a = *x;                                                   \
      for (int64_t i = 0; i < n; ++i) {                                     \
        const float b = y[i * y_step];                                      \
        out[i] = VALUE;                                                     \
      }                                                                     \
    }                                                                       \
  }

IOS_BINARY_ROW(MultiplyRow, a* b)
IOS_BINARY_ROW(AddRow, a + b)
IOS_BINARY_ROW(SubtractRow, a - b)
IOS_BINARY_ROW(DivideRow, a / b)
IOS_BINARY_ROW(MaximumRow, Maximum(a, b))
IOS_BINARY_ROW(MinimumRow, Minimum(a, b))
IOS_BINARY_ROW(SquaredDifferenceRow, (a - b) * (a - b))
IOS_BINARY_ROW(PReluRow, a > 0 ? a : a * b)

#undef IOS_BINARY_ROW

void ComputeBinaryRow(BinaryFunction function, const RowOperand& x,
                      const RowOperand& y, int64_t n, float* out) {
  switch (function) {
    case BinaryFunction::kMultiply:
      return MultiplyRow(x.data, x.step, y.data, y.step, n, out);
    case BinaryFunction::kAdd:
      return AddRow(x.data, x.step, y.data, y.step, n, out);
    case BinaryFunction::kSubtract:
      return SubtractRow(x.data, x.step, y.data, y.step, n, out);
    case BinaryFunction::kDivide:
      return DivideRow(x.data, x.step, y.data, y.step, n, out);
    case BinaryFunction::kMaximum:
      return MaximumRow(x.data, x.step, y.data, y.step, n, out);
    case BinaryFunction::kMinimum:
      return MinimumRow(x.data, x.step, y.data, y.step, n, out);
    case BinaryFunction::kSquaredDifference:
      return SquaredDifferenceRow(x.data, x.step, y.data, y.step, n, out);
    case BinaryFunction::kPRelu:
      return PReluRow(x.data, x.step, y.data, y.step, n, out);
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

// Returns the sizes [N,H,W,C] of a shape [N,H,W,C] or [N,C].
std::array<int64_t, 4> Sizes(const Shape& shape) {
  if (shape.size() == 2) return {shape[0], 1, 1, shape[1]};
  return {shape[0], shape[1], shape[2], shape[3]};
}

// Returns the stride of each dimension in elements, or 0 for a dimension of
// size 1.
std::array<int64_t, 4> Strides(const TensorView& view) {
  const std::array<int64_t, 4> sizes = Sizes(view.shape);
  std::array<int64_t, 4> strides = {sizes[1] * sizes[2] * view.pitch,
                                    sizes[2] * view.pitch, view.pitch, 1};
  for (int d = 0; d < 4; ++d) {
    if (sizes[d] == 1) strides[d] = 0;
  }
  return strides;
}

}  // namespace

BroadcastRows::BroadcastRows(const TensorView& x, const TensorView& y,
                             const TensorView& to) {
  const std::array<int64_t, 4> sizes = Sizes(to.shape);
  const auto xs = Strides(x), ys = Strides(y), ts = Strides(to);
  std::vector<Dimension> dimensions;
  for (int d = 3; d >= 0; --d) {
    const Dimension next = {sizes[d], xs[d], ys[d], ts[d]};
    if (next.size == 1) continue;
    if (!dimensions.empty()) {
      Dimension& inner = dimensions.back();
      if (next.x == inner.x * inner.size && next.y == inner.y * inner.size &&
          next.to == inner.to * inner.size) {
        inner.size *= next.size;
        continue;
      }
    }
    dimensions.push_back(next);
  }
  // Adds a dimension of size 1 if the elements of a row would not be contiguous
  // in the result.
  if (dimensions.empty() || dimensions[0].to != 1 || dimensions[0].x > 1 ||
      dimensions[0].y > 1) {
    dimensions.insert(dimensions.begin(), {1, 1, 1, 1});
  }
  row_ = dimensions[0];
  outer_.assign(dimensions.begin() + 1, dimensions.end());
}

int64_t BroadcastRows::count() const {
  int64_t count = 1;
  for (const Dimension& d : outer_) count *= d.size;
  return count;
}

BroadcastRows::Row BroadcastRows::At(int64_t row) const {
  Row at;
  for (size_t d = 0; d < outer_.size(); ++d) {
    const int64_t i = row % outer_[d].size;
    row /= outer_[d].size;
    at.index[d] = i;
    at.x += i * outer_[d].x;
    at.y += i * outer_[d].y;
    at.to += i * outer_[d].to;
  }
  return at;
}

void BroadcastRows::Advance(Row* row) const {
  for (size_t d = 0; d < outer_.size(); ++d) {
    const Dimension& outer = outer_[d];
    int64_t steps = 1;
    if (++row->index[d] == outer.size) {
      row->index[d] = 0;
      steps = 1 - outer.size;
    }
    row->x += steps * outer.x;
    row->y += steps * outer.y;
    row->to += steps * outer.to;
    if (steps == 1) return;
  }
}

void BinaryRow(BinaryFunction function, const RowOperand& x,
               const RowOperand& y, int64_t n, float* out) {
  IOS_DISPATCH(ComputeBinaryRow)(function, x, y, n, out);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
