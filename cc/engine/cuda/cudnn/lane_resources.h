// LaneResources: the stream, memory and cuDNN handle that a GPU task uses.
#ifndef IOS_TF_CC_ENGINE_CUDA_CUDNN_LANE_RESOURCES_H_
#define IOS_TF_CC_ENGINE_CUDA_CUDNN_LANE_RESOURCES_H_

#include <cuda.h>

namespace ios::cuda {

class CudnnHandle;

// The resources of the lane that runs a task.
struct LaneResources {
  CUstream stream = nullptr;
  void* scratch = nullptr;       // at least scratch_bytes(), owned by the lane
  CudnnHandle* cudnn = nullptr;  // owned by the caller
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_CUDNN_LANE_RESOURCES_H_
