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
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernels.h"
#include "cc/engine/cuda/task.h"

namespace ios::cuda {

// Computes what a spec says by one graph of cuDNN's, or by up to three steps
// where it has none or that is slower: the input with its padding to memory of
// the lane's, cuDNN, the rest.
class Convolution {
 public:
  // Unimplemented, with the spec and cuDNN's reason, if there is no way.
  static StatusOr<std::unique_ptr<Convolution>> Create(
      const Device* device, const ConvolutionSpec& spec);

  // Of the lane's memory that Enqueue() uses.
  int64_t scratch_bytes() const { return scratch_bytes_; }

  // Weights are in the spec's dtype and aligned to 16 bytes; null where there
  // is none. The workspace is the lane's. Can be captured; may be called by
  // several threads at once.
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
    // Of transposed convolutions: from a dense tensor of full windows, whose
    // padding is cut off then.
    bool cut_output = false;
  };

  Convolution() = default;

  // The first form that works.
  static StatusOr<std::unique_ptr<Convolution>> CreateFirst(
      const Device* device, const ConvolutionSpec& spec);
  // Unimplemented if cuDNN has no plan for the form.
  static StatusOr<std::unique_ptr<Convolution>> Create(
      const Device* device, const ConvolutionSpec& spec, const Form& form);

  // Makes what copies the input, padded, and cuts a transposed convolution's
  // output; `plan` is what cuDNN is to compute between the two.
  Status MakeCopies(const Device* device, const ConvolutionSpec& spec,
                    const Form& form, ConvolutionSpec* plan);
  // Makes what computes of the spec what the plan leaves, if anything.
  Status MakeRest(const Device* device, const ConvolutionSpec& spec,
                  const Form& form, const ConvolutionSpec& plan);

  // Whether `steps` is faster than `whole`, both of them of `spec`.
  static StatusOr<bool> StepsAreFaster(const Device* device,
                                       const ConvolutionSpec& spec,
                                       const Convolution& whole,
                                       const Convolution& steps);

  // The ways to lay out input and output, from one kernel to many.
  static std::vector<Form> Layouts(const ConvolutionSpec& spec);

  bool whole() const { return !pad_ && !cut_ && !rest_; }

  std::optional<PadKernel> pad_;
  std::shared_ptr<const CudnnPlan> plan_;
  std::optional<PadKernel> cut_;
  std::optional<SumKernel> rest_;
  bool rest_bias_ = false, rest_residual_ = false;  // left to rest_
  std::shared_ptr<const void>
      zeros_;  // the plan's bias where the spec has none
  // In the lane's memory; the plan's workspace comes first.
  int64_t input_offset_ = 0;
  std::optional<int64_t> output_offset_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_H_
