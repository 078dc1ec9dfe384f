// A convolution with its bias, residual and activation on the GPU.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/cudnn_graph.h"
#include "cc/engine/cuda/cudnn/lane_resources.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernels.h"

namespace ios::cuda {

// Computes a ConvolutionSpec with one cuDNN graph. If cuDNN cannot do this, or
// does it slowly, the computation has up to three steps: copy the input with
// its padding to the lane's memory, run cuDNN for the convolution, and compute
// the rest (bias, residual, activation) with our own kernel.
class Convolution {
 public:
  // Creates the convolution. If no Form (see below) works, returns
  // Unimplemented, with the spec and cuDNN's reason. Unless `may_measure`,
  // nothing is timed: plans are chosen as in FindPlan(), and a form with
  // precompiled plans is preferred.
  static StatusOr<std::unique_ptr<Convolution>> Create(
      const Device* device, const ConvolutionSpec& spec, bool may_measure);

  // Returns the cuDNN plan. While the caller keeps it, a new convolution with
  // an equal spec does not need a search.
  std::shared_ptr<const void> plan() const { return plan_; }

  // Returns the number of bytes of the lane's scratch memory that Enqueue()
  // uses.
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // Enqueues the convolution. Weights have the spec's dtype and are aligned to
  // 16 bytes; a weight that the spec does not have is null. The workspace is in
  // the lane's scratch memory. This can be captured into a CUDA graph, and
  // several threads may call it at once.
  Status Enqueue(ConvolutionPointers pointers, const LaneResources& lane) const;

 private:
  // One way to compute a spec.
  struct Form {
    // The part of the epilogue (bias, residual, activation) that cuDNN's graph
    // computes; SumKernel does the rest.
    enum Fused { kAll, kBias, kNothing };
    Fused fused = kAll;
    bool copy_input = false;   // to a dense tensor with the padding in it
    bool copy_output = false;  // from a dense tensor
    // Only for transposed convolutions: cuDNN writes full windows to a dense
    // tensor, and the padding is cut off afterwards.
    bool cut_output = false;
  };

  Convolution() = default;

  // Creates the convolution in the first form that works.
  static StatusOr<std::unique_ptr<Convolution>> CreateFirst(
      const Device* device, const ConvolutionSpec& spec, bool may_measure);
  // Creates the convolution in this form. Returns Unimplemented if cuDNN has no
  // plan for it.
  static StatusOr<std::unique_ptr<Convolution>> Create(
      const Device* device, const ConvolutionSpec& spec, bool may_measure,
      const Form& form);

  // Makes the kernels that copy and pad the input, and that cut a transposed
  // convolution's output. Changes `plan` to the part that cuDNN computes
  // between them.
  Status MakeCopies(const Device* device, const ConvolutionSpec& spec,
                    const Form& form, ConvolutionSpec* plan);
  // Makes the kernel for the parts of the spec that the plan does not compute,
  // if any.
  Status MakeRest(const Device* device, const ConvolutionSpec& spec,
                  const Form& form, const ConvolutionSpec& plan);

  // Returns the result of an earlier StepsAreFaster(), or nullopt if there is
  // none.
  static std::optional<bool> StepsAreKnownFaster(const Device* device,
                                                 const ConvolutionSpec& spec);
  // Measures whether `steps` is faster than `whole`. Both compute `spec`.
  static StatusOr<bool> StepsAreFaster(const Device* device,
                                       const ConvolutionSpec& spec,
                                       const Convolution& whole,
                                       const Convolution& steps);

  // Returns the forms that differ in the layout of input and output. Forms with
  // fewer kernels come first.
  static std::vector<Form> Layouts(const ConvolutionSpec& spec);

  bool whole() const { return !pad_ && !cut_ && !rest_; }

  std::optional<PadKernel> pad_;
  std::shared_ptr<const CudnnPlan> plan_;
  std::optional<PadKernel> cut_;
  std::optional<SumKernel> rest_;
  bool rest_bias_ = false, rest_residual_ = false;  // computed by rest_
  std::shared_ptr<const void>
      zeros_;  // the plan's bias where the spec has none
  // Offsets of the copied input and output in the lane's memory, after the
  // plan's workspace.
  int64_t input_offset_ = 0;
  std::optional<int64_t> output_offset_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_H_
