// Our own kernels for Resize, DepthToSpace, SpaceToDepth and Lrn.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_SPATIAL_KERNELS_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_SPATIAL_KERNELS_H_

#include <cuda.h>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"

namespace ios::cuda {

class ResizeKernel {
 public:
  static StatusOr<ResizeKernel> Create(const Device* device, DataType dtype,
                                       const Operator& op,
                                       const TensorView& input,
                                       const TensorView& output);
  Status Enqueue(const void* input, void* output, CUstream stream) const;

 private:
  Launch<ResizeParams> launch_;
};

// Moves groups of channels to blocks of cells (kDepthToSpace), or back
// (kSpaceToDepth).
class MoveDepthKernel {
 public:
  static StatusOr<MoveDepthKernel> Create(const Device* device, DataType dtype,
                                          const Operator& op,
                                          const TensorView& input,
                                          const TensorView& output);
  Status Enqueue(const void* input, void* output, CUstream stream) const;

 private:
  bool to_depth_ = false;
  Launch<MoveDepthParams> launch_;
};

// Computes a local response normalisation, OperatorType::kLrn.
class LrnKernel {
 public:
  static StatusOr<LrnKernel> Create(const Device* device, DataType dtype,
                                    const Operator& op, const TensorView& input,
                                    const TensorView& output);
  Status Enqueue(const void* input, void* output, CUstream stream) const;

 private:
  Launch<LrnParams> launch_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_SPATIAL_KERNELS_H_
