// Products of matrices, pixels x channels by channels x filters: 1x1
// convolutions, and their bias, residual and activation.
//
// The work is cut into units of some rows of pixels and a range of filters
// each. A unit keeps a tile of the output in registers while it walks through
// the channels; its pixels stay in a core's second cache, and a panel of
// filters in the first.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_GEMM_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_GEMM_H_

#include <cstdint>

#include "cc/core/ir/block.h"

namespace ios::cpu {

struct GemmPlan {
  // For `threads` that share the units.
  GemmPlan(int64_t pixels, int64_t channels, int64_t filters, int threads);

  int64_t units() const { return strips * parts; }

  int64_t pixels, channels, filters;
  int64_t strips = 0, parts = 0;  // of all pixels, of all filters
};

// Filters of a panel: of these lie together what is multiplied with a channel.
// Zeros are behind the last one's.
int64_t GemmPanel();

// Tensors have pixels `pitch` floats apart.
struct GemmArguments {
  const float* input = nullptr;
  int64_t input_pitch = 0;
  const float* filter = nullptr;    // [panels][channels][GemmPanel()]
  const float* bias = nullptr;      // null for none
  const float* residual = nullptr;  // null for none
  int64_t residual_pitch = 0;
  Activation activation;
  float* output = nullptr;  // must not be the residual
  int64_t output_pitch = 0;
};

// Computes units [begin, end) on the calling thread.
void RunGemm(const GemmPlan& plan, const GemmArguments& arguments,
             int64_t begin, int64_t end);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_GEMM_H_
