// Activations of single values and of vectors. All kernels share this source.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kActivationsSource[] = R"cuda(
// IOS_ACTIVATION: as in ios::Activation::Kind. IOS_ALPHA, IOS_BETA: the bits of its
// parameters; 0 unless said.

#ifndef IOS_ALPHA
#define IOS_ALPHA 0
#endif
#ifndef IOS_BETA
#define IOS_BETA 0
#endif

// These keep NaN, as TensorFlow's do; fmaxf and fminf do not.
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
// x ** alpha.
__device__ __forceinline__ float Power(float x) {
  const float alpha = FromBits(static_cast<unsigned>(IOS_ALPHA));
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
#if IOS_ACTIVATION == 0
  return x;
#elif IOS_ACTIVATION == 1
  return Relu(x);
#elif IOS_ACTIVATION == 2
  return Relu6(x);
#elif IOS_ACTIVATION == 3
  return Sigmoid(x);
#elif IOS_ACTIVATION == 4
  return tanhf(x);
#elif IOS_ACTIVATION == 5
  return x * Sigmoid(alpha * x);
#elif IOS_ACTIVATION == 6
  return AtLeast(AtMost(alpha * x + beta, 1.0f), 0.0f);
#elif IOS_ACTIVATION == 7
  return x * (Relu6(x + 3.0f) * (1.0f / 6.0f));
#elif IOS_ACTIVATION == 8
  return x > 0.0f ? x : alpha * expm1f(x);
#elif IOS_ACTIVATION == 9
  return x > 0.0f ? x : alpha * x;
#elif IOS_ACTIVATION == 10
  return x > 0.0f ? 1.05070099f * x : 1.75809934f * expm1f(x);
#elif IOS_ACTIVATION == 11
  return Softplus(x);
#elif IOS_ACTIVATION == 12
  return x / (1.0f + fabsf(x));
#elif IOS_ACTIVATION == 13
  return 0.5f * x * erfcf(x * -0.70710678f);
#elif IOS_ACTIVATION == 14
  return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * (x * x * x))));
#elif IOS_ACTIVATION == 15
  return x * tanhf(Softplus(x));
#elif IOS_ACTIVATION == 16
  return AtLeast(x, alpha);
#elif IOS_ACTIVATION == 17
  return AtMost(x, alpha);
#elif IOS_ACTIVATION == 18
  return AtLeast(AtMost(x, beta), alpha);
#elif IOS_ACTIVATION == 19
  return x > alpha ? x : 0.0f;
#elif IOS_ACTIVATION == 20
  return expf(x);
#elif IOS_ACTIVATION == 21
  return expm1f(x);
#elif IOS_ACTIVATION == 22
  return logf(x);
#elif IOS_ACTIVATION == 23
  return log1pf(x);
#elif IOS_ACTIVATION == 24
  return sqrtf(x);
#elif IOS_ACTIVATION == 25
  return 1.0f / sqrtf(x);
#elif IOS_ACTIVATION == 26
  return x * x;
#elif IOS_ACTIVATION == 27
  return Power(x);
#elif IOS_ACTIVATION == 28
  return fabsf(x);
#elif IOS_ACTIVATION == 29
  return erff(x);
#elif IOS_ACTIVATION == 30
  return erfcf(x);
#elif IOS_ACTIVATION == 31
  return sinf(x);
#else
#error "unknown activation"
#endif
}

__device__ __forceinline__ Vector Activate(Vector x) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) x.v[i] = Activate(x.v[i]);
  return x;
}
)cuda";

}  // namespace ios::cuda
