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

// Returns whether cuDNN's graphs support the activation.
bool CudnnHas(const Activation& activation);

// Device pointers of one execution. Pointers that the spec does not need are
// ignored.
struct ConvolutionPointers {
  const void* input = nullptr;
  const void* filter = nullptr;  // [filters, height, width, channels / groups]
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* output = nullptr;
  void* workspace = nullptr;  // workspace_bytes() long
};

// A plan of cuDNN: an engine (cuDNN's word for an implementation) with its
// configuration, ready to run.
class CudnnPlan {
 public:
  virtual ~CudnnPlan() = default;

  virtual int64_t workspace_bytes() const = 0;
  // Enqueues the plan. This can be captured into a CUDA graph, and several
  // threads may call it at once.
  virtual Status Enqueue(const ConvolutionPointers& pointers, CUstream stream,
                         CudnnHandle* handle) const = 0;
  // Returns the plan as text, from which LoadCudnnPlan() can make the same plan
  // again. The text contains the code of compiled kernels, so text from an
  // untrusted source must not be loaded.
  virtual StatusOr<std::string> Json() const = 0;
};

// Makes a plan from the Json() of a plan for the same spec, cuDNN and device,
// in less than a millisecond. Returns Unimplemented if cuDNN rejects the text.
StatusOr<std::shared_ptr<const CudnnPlan>> LoadCudnnPlan(
    const Device* device, const ConvolutionSpec& spec, const std::string& json);

// A plan that cuDNN proposes but that is not built yet: an engine with its
// configuration.
struct CudnnCandidate {
  // The engine and its knobs, for example "eng51_k2=8_k27=1" or "free
  // eng4_k24=3". A name means the same in every process with the same library
  // and device.
  std::string name;
  // Whether building the plan compiles its kernel, which takes about a third of
  // a second.
  bool compiles = false;
};

// One cuDNN graph that computes everything in a spec.
class CudnnGraph {
 public:
  // Creates the graph. If cuDNN has no engine for it, returns Unimplemented
  // with cuDNN's reason. If the name of a candidate is given, Create() stops
  // asking cuDNN's heuristics as soon as one of them proposes this candidate,
  // because each heuristic takes milliseconds. For this and all functions
  // below, the device's context must be current.
  static StatusOr<std::unique_ptr<CudnnGraph>> Create(
      const Device* device, const ConvolutionSpec& spec,
      const std::string& candidate = "");
  virtual ~CudnnGraph() = default;

  // Returns the candidates in the order of cuDNN's heuristics, without
  // duplicates.
  virtual const std::vector<CudnnCandidate>& candidates() const = 0;
  // Builds the plan of a candidate. Returns Unimplemented if the candidate does
  // not work.
  virtual StatusOr<std::shared_ptr<const CudnnPlan>> Build(
      size_t candidate) const = 0;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_CUDNN_GRAPH_H_
