// The task of a 1x1 convolution as a matrix product, and matrix products that
// are parts of other tasks.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_POINTWISE_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_POINTWISE_H_

#include <cstdint>
#include <memory>
#include <type_traits>

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/kernels/bfloat16.h"
#include "cc/engine/cpu/kernels/bfloat16_product.h"
#include "cc/engine/cpu/kernels/gemm.h"
#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {

class PointwiseWeights {
 public:
  // `filter` has TensorFlow's layout: [1,1,channels,filters] or
  // [channels,filters]. `bias` may be null.
  PointwiseWeights(const dnnl::engine& engine, int64_t channels,
                   const Operator& of, CpuParameter* filter,
                   CpuParameter* bias);

  // Returns arguments in which the filter and the bias are set. The caller sets
  // the other members.
  GemmArguments Arguments() const;

 private:
  dnnl::memory filter_, bias_;
};

// The operands of a 1x1 convolution for some pixels. The residual may be null.
template <typename T>
struct PointwiseOperands {
  const T* input = nullptr;
  const T* residual = nullptr;
  int64_t residual_pitch = 0;
  void* output = nullptr;  // must not be the residual
};

// A 1x1 convolution that is a part of a task. The task computes the input
// pixels itself, or reads the output pixels itself. The views give the layout
// of a pixel. `of` gives the number of filters and the activation.
class FloatPointwise {
 public:
  using Plan = GemmPlan;

  FloatPointwise(const dnnl::engine& engine, const TensorView& input,
                 const TensorView& output, const Operator& of,
                 CpuParameter* filter, CpuParameter* bias);

  Plan PlanFor(int64_t pixels, int threads) const {
    return Plan(pixels, input_.channels(), output_.channels(), threads);
  }
  // The scratch memory of a thread for a plan.
  static int64_t scratch_floats(const Plan&) { return 0; }
  // Computes the units `begin` to `end` (exclusive) on the calling thread.
  void Run(const Plan& plan, const PointwiseOperands<float>& operands,
           int64_t begin, int64_t end, float* scratch) const;

 private:
  const TensorView input_, output_;
  const Activation activation_;
  const PointwiseWeights weights_;
};

// Does the same for bfloat16 inputs and residuals. The output has the type of
// its view.
class BFloat16Pointwise {
 public:
  using Plan = BFloat16Product;

  BFloat16Pointwise(const dnnl::engine& engine, const TensorView& input,
                    const TensorView& output, const Operator& of,
                    CpuParameter* filter, CpuParameter* bias);

  Plan PlanFor(int64_t pixels, int threads) const;
  static int64_t scratch_floats(const Plan& plan) {
    return plan.scratch_floats();
  }
  void Run(const Plan& plan, const PointwiseOperands<BFloat16>& operands,
           int64_t begin, int64_t end, float* scratch) const;

 private:
  const TensorView input_, output_;
  Operator op_;
  std::shared_ptr<const BFloat16> filter_;
  dnnl::memory bias_;
};

template <typename T>
using Pointwise = std::conditional_t<std::is_same_v<T, float>, FloatPointwise,
                                     BFloat16Pointwise>;

std::unique_ptr<Task> MakePointwiseTask(const TaskSpec& spec,
                                        const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_POINTWISE_H_
