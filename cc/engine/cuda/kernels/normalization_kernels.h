// Our own kernels that combine channels: Reduce, Normalize and ChannelShuffle.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_NORMALIZATION_KERNELS_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_NORMALIZATION_KERNELS_H_

#include <cuda.h>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"

namespace ios::cuda {

// Computes `op`, a Reduce, Normalize or ChannelShuffle.
class NormalizationKernel {
 public:
  static StatusOr<NormalizationKernel> Create(const Device* device,
                                              DataType dtype,
                                              const Operator& op,
                                              const TensorView& input,
                                              const TensorView& output);
  // `scale` and `shift` are the weights of a Normalize, and null for other
  // operators.
  Status Enqueue(const void* input, const void* scale, const void* shift,
                 void* output, CUstream stream) const;

 private:
  Launch<NormalizationParams> launch_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_NORMALIZATION_KERNELS_H_
