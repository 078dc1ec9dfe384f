// Tiles that are computed by the definition of a convolution, without
// transforms.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_DIRECT_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_DIRECT_H_

#include <cstdint>

#include "cc/engine/cpu/kernels/winograd.h"
#include "cc/engine/cpu/kernels/winograd_units.h"

namespace ios::cpu {

// Computes one tile for `count` filters. It adds in float32, and again in
// float64 where a result is not finite.
void ComputeDirectly(const WinogradPlan& plan,
                     const WinogradArguments& arguments, const Place& place,
                     int64_t first_filter, int64_t count);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_DIRECT_H_
