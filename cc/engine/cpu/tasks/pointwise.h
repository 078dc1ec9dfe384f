// The task of a 1x1 convolution as a matrix product, and its weights.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_POINTWISE_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_POINTWISE_H_

#include <cstdint>
#include <memory>

#include "cc/engine/cpu/kernels/gemm.h"
#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/tasks.h"

namespace ios::cpu {

class PointwiseWeights {
 public:
  // `filter` is in TensorFlow's layout: [1,1,channels,filters], or
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

std::unique_ptr<Task> MakePointwiseTask(const TaskSpec& spec,
                                        const dnnl::engine& engine);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_POINTWISE_H_
