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

// Returns the device's key in PlanCache: its name, its properties, and the
// versions of CUDA and cuDNN.
std::string PlanCacheName(const Device* device);

// Returns the fastest plan that computes the spec with one graph. Equal specs
// share the plan. The plan has already run once (unless memory ran out), so
// that no code must be loaded while a stream is captured. If the plan cache
// does not have the fastest plan, plans are timed on the device. Unless
// `may_measure`, the first plan that cuDNN proposes and that works is returned
// instead, if possible a precompiled one, and is not stored. Returns
// Unimplemented if cuDNN has no plan for the spec.
StatusOr<std::shared_ptr<const CudnnPlan>> FindPlan(const Device* device,
                                                    const ConvolutionSpec& spec,
                                                    bool may_measure);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_PLAN_SEARCH_H_
