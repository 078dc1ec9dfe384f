// Converts rows between float32 and bfloat16.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_H_

#include <cstdint>
#include <cstring>

namespace ios::cpu {

// A bfloat16 number: the upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

// Convert `n` numbers on the calling thread. Narrow() rounds to the nearest
// number, and to the even one if two are equally near. NaN stays NaN.
void Widen(const BFloat16* from, int64_t n, float* to);
void Narrow(const float* from, int64_t n, BFloat16* to);
// Code that is compiled for both types calls these functions for float. They
// copy the numbers.
inline void Widen(const float* from, int64_t n, float* to) {
  std::memcpy(to, from, n * sizeof(float));
}
inline void Narrow(const float* from, int64_t n, float* to) {
  std::memcpy(to, from, n * sizeof(float));
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_BFLOAT16_H_
