// LaneResources: the resources of a stream that tasks of the GPU use.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_LANE_RESOURCES_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_LANE_RESOURCES_H_

#include <cuda.h>

namespace ios::cuda {

class CudnnHandle;

// Resources of the lane that a task runs on.
struct LaneResources {
  CUstream stream = nullptr;
  void* scratch = nullptr;       // at least scratch_bytes(), owned by the lane
  CudnnHandle* cudnn = nullptr;  // owned by the caller
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_LANE_RESOURCES_H_
