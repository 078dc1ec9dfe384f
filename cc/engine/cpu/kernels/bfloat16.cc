#include "cc/engine/cpu/kernels/bfloat16.h"

#include <cstring>

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/bfloat16.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

void WidenRow(const BFloat16* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = ToFloat(from[i]);
}

void NarrowRow(const float* from, int64_t n, BFloat16* to) {
  for (int64_t i = 0; i < n; ++i) Put(from[i], to + i);
}

#if IOS_VECTOR_BYTES == 64
// Needs AVX512_BF16.
void NarrowRowAtOnce(const float* from, int64_t n, BFloat16* to) {
  typedef float Vector __attribute__((vector_size(IOS_VECTOR_BYTES)));
  constexpr int64_t kAtOnce = 32;
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    Vector low, high;
    std::memcpy(&low, from + i, sizeof(low));
    std::memcpy(&high, from + i + kAtOnce / 2, sizeof(high));
    const Vector result = RoundedTogether(low, high);
    std::memcpy(to + i, &result, sizeof(result));
  }
  NarrowRow(from + i, n - i, to + i);
}
#endif

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

void Widen(const BFloat16* from, int64_t n, float* to) {
  IOS_DISPATCH(WidenRow)(from, n, to);
}

void Narrow(const float* from, int64_t n, BFloat16* to) {
#ifdef __x86_64__
  static const bool has_instruction =
      BestBFloat16Products() != BFloat16Products::kNone;
  if (has_instruction) return avx512::NarrowRowAtOnce(from, n, to);
#endif
  IOS_DISPATCH(NarrowRow)(from, n, to);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
