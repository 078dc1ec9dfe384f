// The source that all kernels share: element types, vectors, memory accesses.
// With the macro IOS_HOST it compiles as C++, so that tests can run the kernels
// on a CPU and check every memory access.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kCommonSource[] = R"cuda(
// Macros: IOS_DTYPE is 0 for float32, 1 for float16 and 2 for bfloat16.
// IOS_VECTOR is the number of elements that a thread reads and writes at once.
// IOS_BLOCKS is the number of blocks that must fit in a multiprocessor, 2 by
// default.

// Blocks have at most 256 threads. If few blocks must fit in a multiprocessor,
// the compiler may use enough registers for all loads to be in flight before
// the first value is used. Small problems need this most.
#ifndef IOS_BLOCKS
#define IOS_BLOCKS 2
#endif
#ifdef IOS_HOST
#define IOS_KERNEL(name, Params)                               \
  extern "C" __global__ void __launch_bounds__(256, IOS_BLOCKS) \
      name(const Params p)
#else
#define IOS_KERNEL(name, Params) \
  extern "C" __global__ void __launch_bounds__(256, IOS_BLOCKS) \
      name(const __grid_constant__ Params p)
#endif

#ifdef IOS_HOST
__device__ __forceinline__ unsigned Bits(float value) {
  unsigned bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}
__device__ __forceinline__ float FromBits(unsigned bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
#else
__device__ __forceinline__ unsigned Bits(float value) {
  return __float_as_uint(value);
}
__device__ __forceinline__ float FromBits(unsigned bits) {
  return __uint_as_float(bits);
}
#endif

// Returns n / d.value, rounded down, for n below 2^31.
__device__ __forceinline__ unsigned FloorDiv(unsigned n, const Divisor& d) {
  const unsigned high =
      static_cast<unsigned>(static_cast<unsigned long long>(n) * d.multiplier >> 32);
  return (high + n) >> d.shift;
}
// Divides n by d in place, and returns the remainder.
__device__ __forceinline__ unsigned Split(unsigned& n, const Divisor& d) {
  const unsigned quotient = FloorDiv(n, d);
  const unsigned remainder = n - quotient * d.value;
  n = quotient;
  return remainder;
}

// --- Memory. Kernels access it only by Load and Store, in words of 2 to 16
// bytes.

template <int kBytes>
struct Words {
  static constexpr int kCount = kBytes / 4;
  unsigned word[kCount];
};
template <>
struct Words<2> {
  static constexpr int kCount = 1;
  unsigned word[1];  // the lower half
};

#ifdef IOS_HOST

// Loads from `pointer`, or returns `fill` in every word if not `enabled`.
template <int kBytes>
__device__ __forceinline__ Words<kBytes> LoadIf(const void* pointer, bool enabled,
                                                unsigned fill) {
  Words<kBytes> words;
  for (int i = 0; i < Words<kBytes>::kCount; ++i) words.word[i] = fill;
  if (enabled) {
    __builtin_memcpy(words.word, IosHostLoad(pointer, kBytes), kBytes);
  }
  return words;
}
template <int kBytes>
__device__ __forceinline__ Words<kBytes> Load(const void* pointer) {
  return LoadIf<kBytes>(pointer, true, 0);
}
template <int kBytes>
__device__ __forceinline__ void Store(void* pointer, const Words<kBytes>& words) {
  __builtin_memcpy(IosHostStore(pointer, kBytes), words.word, kBytes);
}

#else

template <int kBytes>
__device__ __forceinline__ Words<kBytes> Load(const void* pointer);
template <>
__device__ __forceinline__ Words<2> Load<2>(const void* pointer) {
  unsigned short half;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(half) : "l"(pointer));
  return {{half}};
}
template <>
__device__ __forceinline__ Words<4> Load<4>(const void* pointer) {
  Words<4> w;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(w.word[0]) : "l"(pointer));
  return w;
}
template <>
__device__ __forceinline__ Words<8> Load<8>(const void* pointer) {
  Words<8> w;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
      : "=r"(w.word[0]), "=r"(w.word[1]) : "l"(pointer));
  return w;
}
template <>
__device__ __forceinline__ Words<16> Load<16>(const void* pointer) {
  Words<16> w;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(w.word[0]), "=r"(w.word[1]), "=r"(w.word[2]), "=r"(w.word[3])
      : "l"(pointer));
  return w;
}

// Uses a predicated load instead of a branch, so that many loads are in flight
// at once.
template <int kBytes>
__device__ __forceinline__ Words<kBytes> LoadIf(const void* pointer, bool enabled,
                                                unsigned fill);
#define IOS_IF "{ .reg .pred p; setp.ne.u32 p, %" 
template <>
__device__ __forceinline__ Words<2> LoadIf<2>(const void* pointer, bool enabled,
                                              unsigned fill) {
  unsigned short half = fill;
  asm volatile(IOS_IF "2, 0; @p ld.global.u16 %0, [%1]; }"
      : "+h"(half) : "l"(pointer), "r"(static_cast<unsigned>(enabled)));
  return {{half}};
}
template <>
__device__ __forceinline__ Words<4> LoadIf<4>(const void* pointer, bool enabled,
                                              unsigned fill) {
  Words<4> w = {{fill}};
  asm volatile(IOS_IF "2, 0; @p ld.global.u32 %0, [%1]; }"
      : "+r"(w.word[0]) : "l"(pointer), "r"(static_cast<unsigned>(enabled)));
  return w;
}
template <>
__device__ __forceinline__ Words<8> LoadIf<8>(const void* pointer, bool enabled,
                                              unsigned fill) {
  Words<8> w = {{fill, fill}};
  asm volatile(IOS_IF "3, 0; @p ld.global.v2.u32 {%0, %1}, [%2]; }"
      : "+r"(w.word[0]), "+r"(w.word[1])
      : "l"(pointer), "r"(static_cast<unsigned>(enabled)));
  return w;
}
template <>
__device__ __forceinline__ Words<16> LoadIf<16>(const void* pointer, bool enabled,
                                                unsigned fill) {
  Words<16> w = {{fill, fill, fill, fill}};
  asm volatile(IOS_IF "5, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(w.word[0]), "+r"(w.word[1]), "+r"(w.word[2]), "+r"(w.word[3])
      : "l"(pointer), "r"(static_cast<unsigned>(enabled)));
  return w;
}
#undef IOS_IF

__device__ __forceinline__ void Store(void* pointer, const Words<2>& w) {
  asm volatile("st.global.u16 [%0], %1;"
               :: "l"(pointer), "h"(static_cast<unsigned short>(w.word[0]))
               : "memory");
}
__device__ __forceinline__ void Store(void* pointer, const Words<4>& w) {
  asm volatile("st.global.u32 [%0], %1;"
               :: "l"(pointer), "r"(w.word[0]) : "memory");
}
__device__ __forceinline__ void Store(void* pointer, const Words<8>& w) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};"
               :: "l"(pointer), "r"(w.word[0]), "r"(w.word[1]) : "memory");
}
__device__ __forceinline__ void Store(void* pointer, const Words<16>& w) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :: "l"(pointer), "r"(w.word[0]), "r"(w.word[1]), "r"(w.word[2]),
                  "r"(w.word[3]) : "memory");
}

#endif  // IOS_HOST

// --- Elements. They are bits of the type in memory, and float in registers.

#if IOS_DTYPE == 0

typedef float Element;
enum : unsigned { kMinusInfinity = 0xff800000 };  // in every element of a word
__device__ __forceinline__ float FirstOf(unsigned word) { return FromBits(word); }

#else

typedef unsigned short Element;

#if IOS_DTYPE == 1

enum : unsigned { kMinusInfinity = 0xfc00fc00 };  // in every element of a word

#ifdef IOS_HOST
__device__ __forceinline__ float ToFloat(Element bits) {
  const unsigned magnitude = bits & 0x7fff;
  const unsigned sign = static_cast<unsigned>(bits & 0x8000) << 16;
  if (magnitude >= 0x7c00) {
    return FromBits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  }
  // The multiplication by 2^112 corrects the bias of the exponent, also for
  // subnormal numbers.
  const float value = FromBits(magnitude << 13) * FromBits(0x77800000);
  return FromBits(sign | Bits(value));
}
__device__ __forceinline__ Element ToElement(float value) {
  const unsigned sign = Bits(value) >> 16 & 0x8000;
  const unsigned magnitude = Bits(value) & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Adding 1/2 rounds the number, because the last bit of the sum is 2^-24.
    return sign | (Bits(FromBits(magnitude) + 0.5f) - 0x3f000000);
  }
  return sign | ((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13);
}
#else
__device__ __forceinline__ float ToFloat(Element bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ __forceinline__ Element ToElement(float value) {
  Element bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#endif  // IOS_HOST

#else  // bfloat16

enum : unsigned { kMinusInfinity = 0xff80ff80 };  // in every element of a word

__device__ __forceinline__ float ToFloat(Element bits) {
  return FromBits(static_cast<unsigned>(bits) << 16);
}
__device__ __forceinline__ Element ToElement(float value) {
#if !defined(IOS_HOST) && __CUDA_ARCH__ >= 800
  Element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const unsigned bits = Bits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#endif
}

#endif  // IOS_DTYPE == 1

__device__ __forceinline__ float FirstOf(unsigned word) {
  return ToFloat(static_cast<Element>(word));
}

#endif  // IOS_DTYPE == 0

constexpr int kVector = IOS_VECTOR;
typedef Words<kVector * sizeof(Element)> Raw;

struct Vector {
  float v[kVector];
};

__device__ __forceinline__ Vector Unpack(const Raw& raw) {
  Vector x;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    constexpr int kPerWord = 4 / sizeof(Element);
    x.v[i] = FirstOf(raw.word[i / kPerWord] >>
                     (i % kPerWord * 8 * sizeof(Element)));
  }
  return x;
}

__device__ __forceinline__ Raw Pack(const Vector& x) {
  Raw raw;
#if IOS_DTYPE == 0
#pragma unroll
  for (int i = 0; i < kVector; ++i) raw.word[i] = Bits(x.v[i]);
#else
#pragma unroll
  for (int i = 0; i < kVector; i += 2) {
    raw.word[i / 2] = ToElement(x.v[i]);
    if (i + 1 < kVector) {
      raw.word[i / 2] |= static_cast<unsigned>(ToElement(x.v[i + 1])) << 16;
    }
  }
#endif
  return raw;
}

__device__ __forceinline__ const void* At(const void* tensor, unsigned element) {
  return static_cast<const Element*>(tensor) + element;
}
__device__ __forceinline__ void* At(void* tensor, unsigned element) {
  return static_cast<Element*>(tensor) + element;
}

__device__ __forceinline__ Raw LoadRaw(const void* tensor, unsigned element) {
  return Load<sizeof(Element) * kVector>(At(tensor, element));
}
__device__ __forceinline__ Vector LoadVector(const void* tensor, unsigned element) {
  return Unpack(LoadRaw(tensor, element));
}
__device__ __forceinline__ void StoreVector(void* tensor, unsigned element,
                                            const Vector& x) {
  Store(At(tensor, element), Pack(x));
}

__device__ __forceinline__ void AddTo(Vector& sum, const Vector& x) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) sum.v[i] += x.v[i];
}
)cuda";

}  // namespace ios::cuda
