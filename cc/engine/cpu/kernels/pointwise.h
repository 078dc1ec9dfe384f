// The task of a 1x1 convolution as a product of matrices, and its weights.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_POINTWISE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_POINTWISE_H_

#include <cstdint>
#include <dnnl.hpp>
#include <memory>

#include "cc/engine/cpu/kernels/gemm.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks.h"

namespace ios::cpu {

class PointwiseWeights {
 public:
  // `filter` is an operator's [1,1,channels,filters], or [channels,filters], as
  // TensorFlow has it; `bias` may be null.
  PointwiseWeights(const dnnl::engine& engine, int64_t channels,
                   const Operator& of, CpuParameter* filter,
                   CpuParameter* bias);

  // The filter and the bias; the rest is the caller's.
  GemmArguments Arguments() const;

 private:
  dnnl::memory filter_, bias_;
};

std::unique_ptr<Task> MakePointwiseTask(const TaskSpec& spec,
                                        const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_POINTWISE_H_
