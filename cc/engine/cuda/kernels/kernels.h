// Our own elementwise kernels: sums, binary functions, scales and copies. Each
// kernel chooses its grid and its variant when it is created.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNELS_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNELS_H_

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/backend.h"
#include "cc/engine/cuda/driver/device.h"
#include "cc/engine/cuda/kernels/kernel_cache.h"
#include "cc/engine/cuda/kernels/kernel_params.h"

namespace ios::cuda {

// All kernels compute in float32 and accept any view. Create() compiles the
// kernels in the device's context, which must be current. Enqueue() may be
// called by several threads at once and while its stream is captured. All
// pointers are device pointers.

// The sum output = activation(sum of terms + bias). The terms have the output's
// shape, and the output may be one of the terms.
struct SumSpec {
  DataType dtype = DataType::kFloat32;
  std::vector<TensorView> terms;
  bool bias = false;
  Activation activation = Activation::kNone;
  TensorView output;
};

class SumKernel {
 public:
  static StatusOr<SumKernel> Create(const Device* device, const SumSpec& spec);
  // `bias` has one value per output channel, and is null if the spec does not
  // have a bias.
  Status Enqueue(const void* const* terms, const void* bias, void* output,
                 CUstream stream) const;

 private:
  struct Step {
    Launch<SumParams> launch;
    int terms = 0;  // number of the spec's terms that this step adds
  };
  std::vector<Step> steps_;
};

// The binary function output = activation(function(x, y)), where x and y
// broadcast to the output's shape.
struct BinarySpec {
  DataType dtype = DataType::kFloat32;
  BinaryFunction function = BinaryFunction::kMultiply;
  TensorView x, y;
  Activation activation = Activation::kNone;
  TensorView output;
};

class BinaryKernel {
 public:
  static StatusOr<BinaryKernel> Create(const Device* device,
                                       const BinarySpec& spec);
  Status Enqueue(const void* x, const void* y, void* output,
                 CUstream stream) const;

 private:
  Launch<BinaryParams> launch_;
};

// Computes output = activation(x * scale + shift), with one scale and one shift
// per channel.
class ScaleKernel {
 public:
  static StatusOr<ScaleKernel> Create(const Device* device, DataType dtype,
                                      const TensorView& x,
                                      Activation activation,
                                      const TensorView& output);
  Status Enqueue(const void* x, const void* scale, const void* shift,
                 void* output, CUstream stream) const;

 private:
  Launch<ScaleParams> launch_;
};

// Copies views to views of equal shapes, in as few launches as possible.
class CopyKernel {
 public:
  struct Views {
    TensorView from, to;
  };
  static StatusOr<CopyKernel> Create(const Device* device, DataType dtype,
                                     const std::vector<Views>& copies);
  Status Enqueue(const void* const* from, void* const* to,
                 CUstream stream) const;

 private:
  struct CopyIndex {
    int launch, piece;
  };
  std::vector<Launch<CopyParams>> launches_;
  std::vector<CopyIndex> indices_;  // one per copy
};

// Copies an image to an offset in a larger or smaller image: output[n, h, w] =
// input[n, h - top, w - left].
struct PadSpec {
  DataType dtype = DataType::kFloat32;
  TensorView input, output;
  int64_t top = 0, left = 0;
  // The values around the image. See pad_mode, pad_value and channel_padding of
  // Operator.
  PadMode mode = PadMode::kConstant;
  float value = 0.0f;
  int64_t channels_before = 0;
};

class PadKernel {
 public:
  static StatusOr<PadKernel> Create(const Device* device, const PadSpec& spec);
  Status Enqueue(const void* input, void* output, CUstream stream) const;

 private:
  Launch<PadParams> launch_;
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNELS_H_
