// The kernel of window pools in bfloat16.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_POOL_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_POOL_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/bfloat16.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// Computes OperatorType::kPool for tensors with given shapes. Averages exclude
// the padding. A max pool ignores NaN, as oneDNN's does.
class WindowPool {
 public:
  WindowPool(const Operator& op, const Shape& x, const Shape& to);

  void Run(const SourceOf<BFloat16>& x, const TargetOf<BFloat16>& to) const;

  // How one output cell is computed from a window of input cells.
  struct Window {
    int64_t rows, columns;
    int64_t row_pitch, pitch;  // between rows and columns, in elements
    float start;               // initial value of the maximum or the sum
    float factor;              // by which an average multiplies the sum
    const Activation* activation;
    bool rounds_together;  // whether to round by AVX512_BF16
  };

 private:
  // The input cells of one output cell, in one dimension.
  struct Cells {
    int64_t first = 0, count = 0;
    bool cut = false;  // whether a part of the window lies in the padding
  };
  static std::vector<Cells> CellsOf(const Operator& op, int axis,
                                    int64_t padding, int64_t input,
                                    int64_t output);

  const PoolKind kind_;
  const bool pads_zeros_;
  const Activation activation_;
  const std::vector<Cells> rows_, columns_;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_POOL_H_
