// Dense copies of pitched tensors, in the scratch memory of a task.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_SCRATCH_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_SCRATCH_H_

#include <cstdint>

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/kernels/elementwise.h"
#include "cc/engine/cpu/kernels/scratch_layout.h"

namespace ios::cpu {

// Makes a dense copy of a pitched input in scratch memory. A dense input is
// used without a copy.
class DenseInput {
 public:
  DenseInput(const TensorView& view, ScratchLayout* scratch) : view_(view) {
    if (!view.dense()) offset_ = scratch->Take(NumElements(view.shape));
  }
  const float* Get(const float* data, float* scratch) const {
    if (view_.dense()) return data;
    Copy({data, view_}, {scratch + offset_, DenseView(view_.shape)});
    return scratch + offset_;
  }

 private:
  TensorView view_;
  int64_t offset_ = 0;
};

// Gives kernels a dense output, even if the task's output is pitched. Kernels
// write to the address that Begin() returns. Finish() then applies the
// activation `rest` and copies the result into the task's output.
class DenseOutput {
 public:
  DenseOutput(const TensorView& view, ScratchLayout* scratch) : view_(view) {
    if (!view.dense()) offset_ = scratch->Take(NumElements(view.shape));
  }
  float* Begin(float* data, float* scratch) const {
    return view_.dense() ? data : scratch + offset_;
  }
  void Finish(float* data, float* scratch, const Activation& rest) const {
    if (!view_.dense()) {
      Activate({scratch + offset_, DenseView(view_.shape)}, rest,
               {data, view_});
    } else if (rest != Activation::kNone) {
      Activate({data, view_}, rest, {data, view_});
    }
  }

 private:
  TensorView view_;
  int64_t offset_ = 0;
};
}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_SCRATCH_H_
