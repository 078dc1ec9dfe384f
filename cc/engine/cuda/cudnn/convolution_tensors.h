// ConvolutionTensors: the tensors of a convolution that is measured.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_TENSORS_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_TENSORS_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/cudnn_graph.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Tensors for a spec on the device, with random values, because values affect
// the GPU's power and thus its speed.
class ConvolutionTensors {
 public:
  static StatusOr<ConvolutionTensors> Create(const Device* device,
                                             const ConvolutionSpec& spec);

  Status MakeWorkspace(int64_t bytes);
  // Reads the input and the residual, so that they are in the GPU's L2 cache,
  // as they are after preceding operators have written them.
  Status ReadActivations(CUstream stream) const;
  const ConvolutionPointers& pointers() const { return pointers_; }

 private:
  ConvolutionTensors(const Device* device, DataType dtype);

  StatusOr<void*> Make(const TensorView& view);

  const Device* device_;
  DataType dtype_;
  std::vector<char> pattern_;
  std::vector<std::shared_ptr<void>> memory_;
  ConvolutionPointers pointers_;
  int64_t input_bytes_ = 0, residual_bytes_ = 0;
  void* read_ = nullptr;  // destination of ReadActivations()
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CONVOLUTION_TENSORS_H_
