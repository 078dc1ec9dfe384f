// Helpers for vectors of floats that do not depend on the instruction set.
// registers-inl.h defines the registers of one instruction set.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_REGISTERS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_REGISTERS_H_

#include <cstdint>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/bfloat16.h"

namespace ios::cpu {

// Returns the number of floats of a vector.
template <typename V>
constexpr int64_t Width() {
  return sizeof(V) / sizeof(float);
}

// Copies the elements of a partial vector. This function is not inlined,
// because compiling its many inlined copies takes very long.
template <typename T>
__attribute__((noinline, cold)) void CopyPart(const T* from, int64_t count,
                                              T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// Returns true if the activation only limits values, or does nothing.
inline bool IsLimit(const Activation& activation) {
  return activation == Activation::kNone || activation == Activation::kRelu ||
         activation == Activation::kRelu6;
}

// Returns true if ActivateInRegisters() in registers-inl.h applies it.
inline bool IsInRegisters(const Activation& activation) {
  return IsLimit(activation) || activation == Activation::kHardSwish;
}

// Returns a / b, rounded up.
inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_REGISTERS_H_
