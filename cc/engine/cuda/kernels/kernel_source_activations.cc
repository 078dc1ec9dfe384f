// Activations of single values and of vectors. All kernels share this source.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kActivationsSource[] = R"cuda(
// Macros: IOS_ACTIVATION is the activation, an expression of x, alpha and beta
// (core/ops/activation.def). IOS_ALPHA and IOS_BETA are the bits of its
// parameters, 0 by default.

#ifndef IOS_ACTIVATION
#define IOS_ACTIVATION x
#endif
#ifndef IOS_ALPHA
#define IOS_ALPHA 0
#endif
#ifndef IOS_BETA
#define IOS_BETA 0
#endif

// AtLeast and AtMost return NaN for NaN, as TensorFlow does. fmaxf and fminf do
// not.
__device__ __forceinline__ float AtLeast(float x, float low) {
  return x < low ? low : x;
}
__device__ __forceinline__ float AtMost(float x, float high) {
  return x > high ? high : x;
}
__device__ __forceinline__ float Relu(float x) { return AtLeast(x, 0.0f); }
__device__ __forceinline__ float Relu6(float x) { return AtMost(Relu(x), 6.0f); }
__device__ __forceinline__ float Sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}
__device__ __forceinline__ float Softplus(float x) {
  return Relu(x) + log1pf(expf(-fabsf(x)));
}
// Returns x to the power of alpha.
__device__ __forceinline__ float Power(float x, float alpha) {
  const float exponent = fabsf(alpha);
  float power = x;
  if (exponent == 0.5f) {
    power = x < -3.402823466e38f ? -x : sqrtf(x + 0.0f);
  } else {
#pragma unroll
    for (int i = 2; i <= 4; ++i) {
      if (i <= exponent) power *= x;
    }
  }
  return alpha < 0.0f ? 1.0f / power : power;
}

__device__ __forceinline__ float Activate(float x) {
  const float alpha = FromBits(static_cast<unsigned>(IOS_ALPHA));
  const float beta = FromBits(static_cast<unsigned>(IOS_BETA));
  (void)alpha;
  (void)beta;
  return IOS_ACTIVATION;
}

__device__ __forceinline__ Vector Activate(Vector x) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) x.v[i] = Activate(x.v[i]);
  return x;
}
)cuda";

}  // namespace ios::cuda
