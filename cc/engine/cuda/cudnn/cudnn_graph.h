// Convolutions as cuDNN operation graphs, and the plans that execute them.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_GRAPH_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_GRAPH_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/cudnn_handle.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Whether cuDNN's graphs have the activation.
bool CudnnHas(const Activation& activation);

// Device pointers of one execution; those that the spec has no use for are
// ignored.
struct ConvolutionPointers {
  const void* input = nullptr;
  const void* filter = nullptr;  // [filters, height, width, channels / groups]
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* output = nullptr;
  void* workspace = nullptr;  // of workspace_bytes()
};

// One engine of cuDNN, configured and ready to run.
class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;

  virtual int64_t workspace_bytes() const = 0;
  // Can be captured; may be called by several threads at once.
  virtual Status Enqueue(const ConvolutionPointers& pointers, CUstream stream,
                         CudnnHandle* handle) const = 0;
  // With it LoadCudnnPlan() makes the same plan again. It holds the code of
  // kernels that were compiled: whoever writes it says what the plan computes.
  virtual StatusOr<std::string> Json() const = 0;
};

// A plan of the spec's from its Json(), with the same cuDNN and device; takes
// less than a millisecond. Unimplemented if cuDNN refuses it.
StatusOr<std::shared_ptr<const CudnnPlan>> LoadCudnnPlan(
    const Device* device, const ConvolutionSpec& spec, const std::string& json);

// An engine of cuDNN with its configuration.
struct CudnnCandidate {
  // The engine and its knobs, "eng51_k2=8_k27=1" or "free eng4_k24=3": means
  // the same in every process with the same library and device.
  std::string name;
  // Its kernel is compiled when the plan is built, which takes up to a second.
  bool compiles = false;
};

// One graph for all a spec asks for.
class CudnnGraph {
 public:
  // Unimplemented, with cuDNN's reason, if it has no engine for the graph. With
  // a candidate's name no more heuristics are asked than those that propose it:
  // each takes milliseconds. Needs the device's context to be current, as all
  // functions here do.
  static StatusOr<std::unique_ptr<CudnnGraph>> Create(
      const Device* device, const ConvolutionSpec& spec,
      const std::string& candidate = "");
  virtual ~CudnnGraph() = default;

  // In the order of cuDNN's heuristics, each of them once.
  virtual const std::vector<CudnnCandidate>& candidates() const = 0;
  // Unimplemented if the candidate turns out not to work.
  virtual StatusOr<std::shared_ptr<const CudnnPlan>> Build(
      size_t candidate) const = 0;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_GRAPH_H_
