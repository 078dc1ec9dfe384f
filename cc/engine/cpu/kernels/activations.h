// Applies activations to rows of floats, in loops that the compiler vectorises.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_ACTIVATIONS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_ACTIVATIONS_H_

#include <cstdint>

#include "cc/core/ir/block.h"

namespace ios::cpu {

// out[i] = activation(x[i]) for i in [0, n), on the calling thread; `out` may
// be `x`.
void ActivateRow(const float* x, int64_t n, const Activation& activation,
                 float* out);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_ACTIVATIONS_H_
