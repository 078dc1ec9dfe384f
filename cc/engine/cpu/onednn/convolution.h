// A convolution, or a transposed convolution, of dense tensors as a oneDNN
// primitive.
#ifndef IOS_TF_CC_ENGINE_CPU_ONEDNN_CONVOLUTION_H_
#define IOS_TF_CC_ENGINE_CPU_ONEDNN_CONVOLUTION_H_

#include <cstdint>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/onednn/onednn.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/onednn/primitive.h"

namespace ios::cpu {

// Describes a filter in TensorFlow's layout [kh, kw, channels / groups,
// filters]. Groups divide the last dimension.
dnnl::memory::desc PlainFilterDesc(const Operator& op, int64_t groups,
                                   int64_t channels, int64_t filters);

struct ConvolutionWeights {
  CpuParameter* filter = nullptr;
  CpuParameter* bias = nullptr;  // null if the operator has no bias
};

// Computes a convolution with its bias and residual, if it has them, and
// applies its activation. Some activations are left to the caller; see rest().
class Convolution {
 public:
  // Creates the primitive. Only these attributes of `op` are used: window,
  // filters, groups, residual, activation, and whether it is transposed.
  void Create(const dnnl::engine& engine, const Operator& op,
              const Shape& input, const Shape& output,
              const ConvolutionWeights& weights);

  // Returns a copy that can run on another thread at the same time.
  Convolution Clone() const;

  int64_t scratchpad_floats() const { return primitive_.scratchpad_floats(); }
  // Returns the activation that the caller must apply to the target after
  // Run().
  const Activation& rest() const { return rest_; }

  // Runs the primitive. `residual` has the target's shape, or is null if the
  // convolution does not have a residual.
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
