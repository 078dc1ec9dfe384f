// Conversions of single numbers, for loops that the compiler vectorises. Loops
// for float and BFloat16 are templates that use these functions.
//
// A source includes bfloat16.h first, and this file in the part that
// foreach_target.h repeats for each instruction set. So this file does not have
// an include guard.

namespace ios::cpu::IOS_TARGET {
namespace {

IOS_INLINE float FloatOf(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof(bits));
  return v;
}
IOS_INLINE float ToFloat(float v) { return v; }
IOS_INLINE float ToFloat(BFloat16 v) {
  return FloatOf(static_cast<uint32_t>(v.bits) << 16);
}

// Returns bits whose upper half is v, rounded to bfloat16.
IOS_INLINE uint32_t Rounded(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  // The addition carries into the upper half if the lower half is above one
  // half of a unit. In a tie, it carries if the upper half is odd. NaN is
  // treated separately, because the carry could turn it into another number.
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  return v != v ? bits | 0x400000 : rounded;
}
IOS_INLINE void Put(float v, float* to) { *to = v; }
IOS_INLINE void Put(float v, BFloat16* to) {
  to->bits = static_cast<uint16_t>(Rounded(v) >> 16);
}

#if IOS_VECTOR_BYTES == 64
// Rounds the numbers of `low` and `high` to bfloat16, by an instruction of
// AVX512_BF16. It takes a fifth of the time of Rounded(). It treats denormal
// numbers as zero, as other instructions of our threads do (denormals.h).
template <typename V>
IOS_INLINE V RoundedTogether(V low, V high) {
  V result;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(result) : "v"(low), "v"(high));
  return result;
}
#endif

// Two neighbouring numbers. Loops convert such pairs faster than single
// numbers, because no number moves to another place in its register.
// (Processors are little-endian.)
struct TwoFloats {
  float first, second;
};
IOS_INLINE TwoFloats ToFloats(const BFloat16* from) {
  uint32_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return {FloatOf(bits << 16), FloatOf(bits & 0xffff0000)};
}
IOS_INLINE void Put(const TwoFloats& v, BFloat16* to) {
  const uint32_t bits =
      (Rounded(v.first) >> 16) | (Rounded(v.second) & 0xffff0000);
  std::memcpy(to, &bits, sizeof(bits));
}

// The numbers at even and at odd places of a register of bfloat16 numbers, as
// two registers of floats.
template <typename V>
struct Pair {
  V even, odd;
};

template <typename V>
IOS_INLINE Pair<V> LoadPair(const BFloat16* from) {
  typedef uint32_t Words __attribute__((vector_size(sizeof(V))));
  Words words;
  std::memcpy(&words, from, sizeof(words));
  return {reinterpret_cast<V>(words << 16),
          reinterpret_cast<V>(words & 0xffff0000u)};
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET
