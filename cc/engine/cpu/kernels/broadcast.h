// Binary functions of two tensors that broadcast: divides the tensors into
// rows, and computes one row.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_BROADCAST_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_BROADCAST_H_

#include <array>
#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/backend/backend.h"

namespace ios::cpu {

// Walks through two operands and their result row by row. Rows are as long as
// possible: two neighbouring dimensions become one if, in each of the three
// tensors, both are contiguous or both are broadcast.
class BroadcastRows {
 public:
  // `to` has the shape to which x and y broadcast.
  BroadcastRows(const TensorView& x, const TensorView& y, const TensorView& to);

  // A row: the offsets of its first element in x, y and the result, and its
  // index in each outer dimension.
  struct Row {
    int64_t x = 0, y = 0, to = 0;
    std::array<int64_t, 4> index = {};
  };
  Row At(int64_t row) const;
  // Moves `row` to the next row.
  void Advance(Row* row) const;
  int64_t count() const;
  int64_t length() const { return row_.size; }
  // The step from one element of a row to the next: 1, or 0 if the same element
  // is used for the whole row.
  int64_t x_step() const { return row_.x; }
  int64_t y_step() const { return row_.y; }

 private:
  struct Dimension {
    int64_t size, x, y, to;  // strides
  };
  Dimension row_;
  std::vector<Dimension> outer_;  // the innermost dimension comes first
};

// An operand of a row: element i is data[i * step].
struct RowOperand {
  const float* data = nullptr;
  int64_t step = 1;
};

// Computes out[i] = function(x[i], y[i]) for i in [0, n).
void BinaryRow(BinaryFunction function, const RowOperand& x,
               const RowOperand& y, int64_t n, float* out);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_BROADCAST_H_
