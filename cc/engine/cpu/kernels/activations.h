// Applies activations to rows of floats, in loops that the compiler vectorises.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_ACTIVATIONS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_ACTIVATIONS_H_

#include <cstdint>
#include <type_traits>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/bfloat16.h"

namespace ios::cpu {

// out[i] = activation(x[i]) for i in [0, n), on the calling thread; `out` may
// be `x`.
void ActivateRow(const float* x, int64_t n, const Activation& activation,
                 float* out);

// Does the same for results that are then rounded to bfloat16. Relative errors
// of sigmoid and swish are up to 2^-12 here, an eighth of that rounding.
void ActivateRowForBFloat16(const float* x, int64_t n,
                            const Activation& activation, float* out);

// Selects one of these functions by the type of the results, T.
template <typename T>
void ActivateRowFor(const float* x, int64_t n, const Activation& activation,
                    float* out) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    ActivateRowForBFloat16(x, n, activation, out);
  } else {
    ActivateRow(x, n, activation, out);
  }
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_ACTIVATIONS_H_
