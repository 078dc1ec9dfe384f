// Our own kernels in which the threads of a block compute one result together:
// global pooling and softmax.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_REDUCTION_KERNELS_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_REDUCTION_KERNELS_H_

#include <cuda.h>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"

namespace ios::cuda {

// Computes the maximum or average over height and width. The output is
// [N,1,1,C] or [N,C].
class GlobalPoolKernel {
 public:
  static StatusOr<GlobalPoolKernel> Create(const Device* device, DataType dtype,
                                           const TensorView& input,
                                           PoolKind kind,
                                           const TensorView& output);
  Status Enqueue(const void* input, void* output, CUstream stream) const;

 private:
  Launch<GlobalPoolParams> launch_;
};

// Computes softmax over the last dimension.
class SoftmaxKernel {
 public:
  static StatusOr<SoftmaxKernel> Create(const Device* device, DataType dtype,
                                        const TensorView& input,
                                        const TensorView& output);
  Status Enqueue(const void* input, void* output, CUstream stream) const;

 private:
  Launch<SoftmaxParams> launch_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_REDUCTION_KERNELS_H_
