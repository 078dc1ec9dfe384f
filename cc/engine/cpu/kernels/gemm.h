// Matrix products, [pixels, channels] by [channels, filters]: 1x1 convolutions
// with their bias, residual and activation.
//
// The work is cut into units. Each unit has a range of pixels and a range of
// filters. The code for a unit keeps a tile of the output in registers while it
// adds the products for all channels. The unit's pixels stay in a core's L2
// cache, and a panel of filters (see GemmPanel) in the L1 cache.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_GEMM_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_GEMM_H_

#include <cstdint>

#include "cc/core/ir/block.h"

namespace ios::cpu {

struct GemmPlan {
  // Plans the units for `threads` threads that share them.
  GemmPlan(int64_t pixels, int64_t channels, int64_t filters, int threads);

  int64_t units() const { return strips * parts; }

  int64_t pixels, channels, filters;
  // The numbers of ranges into which all pixels (strips) and all filters
  // (parts) are cut.
  int64_t strips = 0, parts = 0;
};

// Returns the number of filters in a panel. A panel stores, for each channel,
// the factors of all of its filters next to each other. The last panel is
// filled up with zeros.
int64_t GemmPanel();

// The operands of a matrix product. The pixels of a tensor are `..._pitch`
// floats apart.
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

// Computes the units `begin` to `end` (exclusive) on the calling thread.
void RunGemm(const GemmPlan& plan, const GemmArguments& arguments,
             int64_t begin, int64_t end);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_GEMM_H_
