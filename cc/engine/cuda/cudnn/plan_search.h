// Searches for the fastest of cuDNN's plans for a convolution.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_SEARCH_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_SEARCH_H_

#include <memory>
#include <string>

#include "cc/core/status.h"
#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/cudnn_graph.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Names the device, its driver and cuDNN; PlanCache uses this name as a key.
std::string PlanCacheName(const Device* device);

// Returns the fastest plan that computes the spec with one graph; equal specs
// share the plan. The plan has run once (unless memory ran out), so that
// nothing must be loaded while a stream is captured. Plans are timed on the
// device unless the plan cache knows the fastest one. Unimplemented if cuDNN
// has no plan for the spec.
StatusOr<std::shared_ptr<const CudnnPlan>> FindPlan(
    const Device* device, const ConvolutionSpec& spec);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_SEARCH_H_
