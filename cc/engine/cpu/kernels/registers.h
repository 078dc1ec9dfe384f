// Tiles of matrix products that stay in registers: their sizes for each
// instruction set, and how vectors are loaded and stored.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_REGISTERS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_REGISTERS_H_

#include <cstdint>
#include <cstring>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/instruction_set.h"
#include "cc/engine/cpu/kernels/vectorized.h"

#ifdef __x86_64__
#define IOS_AVX2 __attribute__((target("arch=x86-64-v3")))
#define IOS_AVX512 __attribute__((target("arch=x86-64-v4")))
#endif

namespace ios::cpu {

// A matrix product keeps kRows rows by kVectors vectors in registers.
struct Baseline {
  typedef float Vector __attribute__((vector_size(16)));
  static constexpr int kRows = 2, kVectors = 4;
};
struct Avx2 {
  typedef float Vector __attribute__((vector_size(32)));
  static constexpr int kRows = 6, kVectors = 2;
};
struct Avx512 {
  typedef float Vector __attribute__((vector_size(64)));
  static constexpr int kRows = 14, kVectors = 2;
};

// Calls `use` with a value of the type for the best instruction set. Only this
// function selects code by these types.
template <typename Use>
auto ForBestInstructionSet(const Use& use) {
  switch (BestInstructionSet()) {
#ifdef __x86_64__
    case InstructionSet::kAvx512:
      return use(Avx512());
    case InstructionSet::kAvx2:
      return use(Avx2());
#endif
    default:
      return use(Baseline());
  }
}

template <typename V>
constexpr int64_t Width() {
  return sizeof(V) / sizeof(float);
}

// Copies the floats of a partial vector. It is not inlined, because the
// compiler would otherwise spend most of its time on copies of this code.
__attribute__((noinline, cold)) inline void CopyPart(const float* from,
                                                     int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i];
}

// Loads `count` floats, at most one vector, and fills up with zeros. Here and
// below, partial vectors go through a copy in memory, so that whole vectors
// stay in registers.
template <typename V>
IOS_INLINE V Load(const float* from, int64_t count) {
  V v;
  if (count >= Width<V>()) {
    std::memcpy(&v, from, sizeof(V));
  } else {
    float padded[Width<V>()] = {};
    CopyPart(from, count, padded);
    std::memcpy(&v, padded, sizeof(V));
  }
  return v;
}

template <typename V>
IOS_INLINE void Store(V v, int64_t count, float* to) {
  if (count >= Width<V>()) {
    std::memcpy(to, &v, sizeof(V));
  } else {
    float all[Width<V>()];
    std::memcpy(all, &v, sizeof(V));
    CopyPart(all, count, to);
  }
}

// Returns true if matrix products apply this activation to values in registers.
inline bool IsInRegisters(const Activation& activation) {
  return activation == Activation::kNone || activation == Activation::kRelu ||
         activation == Activation::kRelu6;
}

// Applies an activation for which IsInRegisters() is true. Keeps NaN.
template <typename V>
IOS_INLINE void ActivateInRegisters(Activation::Kind activation, V* v) {
  if (activation == Activation::kNone) return;
  *v = *v < 0.0f ? V{} : *v;
  if (activation == Activation::kRelu6) *v = *v > 6.0f ? V{} + 6.0f : *v;
}

// Returns a / b, rounded up.
inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_REGISTERS_H_
