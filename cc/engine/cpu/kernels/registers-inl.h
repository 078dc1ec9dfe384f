// The registers of an instruction set, and how they are loaded and stored.
//
// A source includes registers.h first, and this file in the part that
// foreach_target.h repeats for each instruction set. So this file does not have
// an include guard.

namespace ios::cpu::IOS_TARGET {
namespace {

// The vectors of the instruction set. A matrix product keeps a tile of kRows x
// kVectors vectors in registers.
struct Native {
  typedef float Vector __attribute__((vector_size(IOS_VECTOR_BYTES)));
  typedef uint32_t Words __attribute__((vector_size(IOS_VECTOR_BYTES)));
  typedef uint16_t Halves __attribute__((vector_size(IOS_VECTOR_BYTES / 2)));
#if IOS_VECTOR_BYTES == 64
  static constexpr int kRegisters = 32, kRows = 14, kVectors = 2;
#elif IOS_VECTOR_BYTES == 32
  static constexpr int kRegisters = 16, kRows = 6, kVectors = 2;
#else
  static constexpr int kRegisters = 16, kRows = 2, kVectors = 4;
#endif
};

// Returns words whose upper halves are the numbers of `v`, rounded to bfloat16.
// See Rounded(float) in bfloat16-inl.h.
IOS_INLINE Native::Words Rounded(Native::Vector v) {
  const auto bits = reinterpret_cast<Native::Words>(v);
  const Native::Words rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return v == v ? rounded : bits | 0x400000;
}

// Load and store whole vectors. Elements in memory may be bfloat16 numbers. A
// store then rounds like Narrow().
IOS_INLINE Native::Vector LoadVector(const float* from) {
  Native::Vector v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
IOS_INLINE Native::Vector LoadVector(const BFloat16* from) {
  Native::Halves halves;
  std::memcpy(&halves, from, sizeof(halves));
#if IOS_VECTOR_BYTES == 64
  // GCC 12 would convert the halves of the register separately.
  const auto words = reinterpret_cast<Native::Words>(
      _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(halves)));
#else
  const auto words = __builtin_convertvector(halves, Native::Words);
#endif
  return reinterpret_cast<Native::Vector>(words << 16);
}

IOS_INLINE void StoreVector(Native::Vector v, float* to) {
  std::memcpy(to, &v, sizeof(v));
}
IOS_INLINE void StoreVector(Native::Vector v, BFloat16* to) {
  const Native::Words words = Rounded(v) >> 16;
#if IOS_VECTOR_BYTES == 64
  const auto halves = reinterpret_cast<Native::Halves>(
      _mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(words)));
#else
  const auto halves = __builtin_convertvector(words, Native::Halves);
#endif
  std::memcpy(to, &halves, sizeof(halves));
}

#if defined(__x86_64__) && IOS_VECTOR_BYTES == 32
// Returns a mask of the first `count` floats of a vector.
IOS_INLINE __m256i FirstFloats(int64_t count) {
  static constexpr int32_t kMasks[] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                       0,  0,  0,  0,  0,  0,  0,  0};
  return _mm256_loadu_si256(
      reinterpret_cast<const __m256i*>(kMasks + 8 - count));
}
#endif

// Loads `count` floats, at most one vector, and fills the rest of the vector
// with zeros.
template <typename V>
IOS_INLINE V Load(const float* from, int64_t count) {
  if (count >= Width<V>()) return LoadVector(from);
#if !defined(__x86_64__) || IOS_VECTOR_BYTES == 16
  float padded[Width<V>()] = {};
  CopyPart(from, count, padded);
  return LoadVector(padded);
#elif IOS_VECTOR_BYTES == 32
  return _mm256_maskload_ps(from, FirstFloats(count));
#else
  return _mm512_maskz_loadu_ps((1 << count) - 1, from);
#endif
}

template <typename V>
IOS_INLINE void Store(V v, int64_t count, float* to) {
  if (count >= Width<V>()) return StoreVector(v, to);
#if !defined(__x86_64__) || IOS_VECTOR_BYTES == 16
  float all[Width<V>()];
  StoreVector(v, all);
  CopyPart(all, count, to);
#elif IOS_VECTOR_BYTES == 32
  _mm256_maskstore_ps(to, FirstFloats(count), v);
#else
  _mm512_mask_storeu_ps(to, (1 << count) - 1, v);
#endif
}

// Does the step of a matrix product for one channel: multiplies the value that
// each row has in this channel by the vectors of factors, and adds the products
// to the sums. The values of neighbouring rows are `pitch` floats apart.
template <int kRows, int kVectors, typename V>
IOS_INLINE void AddOuterProduct(const float* numbers, int64_t pitch,
                                const V (&factors)[kVectors],
                                V (&sums)[kRows][kVectors]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const float x = numbers[r * pitch];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] += x * factors[v];
  }
}

// Return a > b ? a : b and a < b ? a : b, so b if a number is NaN. GCC 12
// compiles these expressions into several instructions, and warns about the
// form of the AVX-512 intrinsics without a mask.
IOS_INLINE Native::Vector Max(Native::Vector a, Native::Vector b) {
#if !defined(__x86_64__)
  return a > b ? a : b;
#elif IOS_VECTOR_BYTES == 64
  return _mm512_maskz_max_ps(0xffff, a, b);
#elif IOS_VECTOR_BYTES == 32
  return _mm256_max_ps(a, b);
#else
  return _mm_max_ps(a, b);
#endif
}
IOS_INLINE Native::Vector Min(Native::Vector a, Native::Vector b) {
#if !defined(__x86_64__)
  return a < b ? a : b;
#elif IOS_VECTOR_BYTES == 64
  return _mm512_maskz_min_ps(0xffff, a, b);
#elif IOS_VECTOR_BYTES == 32
  return _mm256_min_ps(a, b);
#else
  return _mm_min_ps(a, b);
#endif
}

// Applies an activation for which IsInRegisters() is true. NaN stays NaN.
template <typename V>
IOS_INLINE void ActivateInRegisters(Activation::Kind activation, V* v) {
  if (activation == Activation::kNone) return;
  if (activation == Activation::kHardSwish) {
    const V limited = Min(V{} + 6.0f, Max(V{}, *v + 3.0f));
    *v *= limited * (1.0f / 6.0f);
    return;
  }
  *v = Max(V{}, *v);
  if (activation == Activation::kRelu6) *v = Min(V{} + 6.0f, *v);
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET
