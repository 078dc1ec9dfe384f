// How long work takes on the GPU, to choose among ways to do the same.
#ifndef IOS_TF_CC_ENGINE_CUDA_MEASURE_WORK_H_
#define IOS_TF_CC_ENGINE_CUDA_MEASURE_WORK_H_

#include <cuda.h>

#include <functional>
#include <memory>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/cuda/convolution_spec.h"
#include "cc/engine/cuda/cudnn_graph.h"
#include "cc/engine/cuda/device.h"

namespace ios::cuda {

// Enqueues work on a stream, which may be captured.
using Enqueuer = std::function<Status(CUstream)>;

// Milliseconds of some runs of each work, measured in turn; infinite for work that
// cannot be captured. Each must have run before.
StatusOr<std::vector<float>> MeasureWork(const Device* device,
                                         const std::vector<Enqueuer>& works);

// Random tensors of a spec on the device: power, and so speed, depends on values.
class ConvolutionTensors {
 public:
  static StatusOr<ConvolutionTensors> Create(const Device* device,
                                             const ConvolutionSpec& spec);

  Status MakeWorkspace(int64_t bytes);
  const ConvolutionPointers& pointers() const { return pointers_; }

 private:
  ConvolutionTensors(const Device* device, DataType dtype);

  StatusOr<void*> Make(const TensorView& view);

  const Device* device_;
  DataType dtype_;
  std::vector<char> pattern_;
  std::vector<std::shared_ptr<void>> memory_;
  ConvolutionPointers pointers_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_MEASURE_WORK_H_
