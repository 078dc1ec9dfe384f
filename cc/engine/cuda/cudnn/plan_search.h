// The search for the fastest of cuDNN's plans for a convolution.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_SEARCH_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_SEARCH_H_

#include <memory>
#include <string>

#include "cc/core/status.h"
#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/cudnn_graph.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// The device, its driver and cuDNN in words: what PlanCache knows it by.
std::string PlanCacheName(const Device* device);

// One graph's fastest plan, which equal specs share; it has run once, so that
// nothing is left to be loaded while a stream is captured. Timed on the device
// unless the plan cache knows it. Unimplemented if cuDNN has no plan for the
// spec.
StatusOr<std::shared_ptr<const CudnnPlan>> FindPlan(
    const Device* device, const ConvolutionSpec& spec);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_SEARCH_H_
