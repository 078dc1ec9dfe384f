// Computes tiles by the definition of a convolution, without Winograd's
// transforms.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_DIRECT_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_DIRECT_H_

#include <cstdint>

#include "cc/engine/cpu/kernels/winograd.h"
#include "cc/engine/cpu/kernels/winograd_units.h"

namespace ios::cpu {

// Computes one tile for `count` filters. Sums are in float32; if a result is
// not finite, the sum is repeated in float64.
void ComputeDirectly(const WinogradPlan& plan,
                     const WinogradArguments& arguments, const Place& place,
                     int64_t first_filter, int64_t count);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_DIRECT_H_
