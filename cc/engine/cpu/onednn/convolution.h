// A convolution of dense tensors, or a transposed one, as a oneDNN primitive.
#ifndef IOS_TF_CC_ENGINE_CPU_ONEDNN_CONVOLUTION_H_
#define IOS_TF_CC_ENGINE_CPU_ONEDNN_CONVOLUTION_H_

#include <cstdint>
#include <dnnl.hpp>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/onednn/primitive.h"

namespace ios::cpu {

// TensorFlow's filters [kh, kw, channels / groups, filters]; groups divide the
// last dimension.
dnnl::memory::desc PlainFilterDesc(const Operator& op, int64_t groups,
                                   int64_t channels, int64_t filters);

struct ConvolutionWeights {
  CpuParameter* filter = nullptr;
  CpuParameter* bias = nullptr;  // null without one
};

// filter [+ bias] [+ residual] + activation, unless that is left to do.
class Convolution {
 public:
  // Of `op`, its window, filters, groups, residual and activation count, and
  // whether it is transposed.
  void Create(const dnnl::engine& engine, const Operator& op,
              const Shape& input, const Shape& output,
              const ConvolutionWeights& weights);

  // The same convolution, to run on another thread at the same time.
  Convolution Clone() const;

  int64_t scratchpad_floats() const { return primitive_.scratchpad_floats(); }
  // The activation that the caller has to apply to the target after Run().
  const Activation& rest() const { return rest_; }

  // `residual` has the target's shape; null if there is none.
  void Run(const float* source, const float* residual, float* target,
           dnnl_stream_t stream, float* scratchpad);

 private:
  void CreateTransposed(const dnnl::engine& engine, const Operator& op,
                        const Shape& input, const Shape& output,
                        const ConvolutionWeights& weights);
  template <typename PrimitiveDesc>
  void CreatePrimitive(const dnnl::engine& engine, const PrimitiveDesc& desc,
                       const dnnl::memory::desc& plain,
                       const ConvolutionWeights& weights);

  Primitive primitive_;
  Activation rest_;
  int source_ = -1, target_ = -1, residual_ = -1;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_ONEDNN_CONVOLUTION_H_
