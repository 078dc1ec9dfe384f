// Resizes images, by nearest-neighbour or bilinear interpolation.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_RESIZE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_RESIZE_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/views.h"

namespace ios::cpu {

// Computes OperatorType::kResize for tensors with given shapes and pitches.
class ImageResize {
 public:
  ImageResize() = default;
  ImageResize(const Operator& op, const TensorView& x, const TensorView& to);

  // T is float or BFloat16.
  template <typename T>
  void Run(const SourceOf<T>& x, const TargetOf<T>& to) const;

  // The two input cells from which one output cell is interpolated, in one
  // dimension.
  struct Cells {
    int64_t lower, upper;
    float weight;  // of the upper cell
  };

 private:
  bool copies_ = false;  // true if cells are copied without interpolation
  std::vector<Cells> rows_;
  std::vector<Cells> columns_;  // offsets in elements instead of cells
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_RESIZE_H_
