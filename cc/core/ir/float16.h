// Conversions of single float16 numbers, without branches and function calls,
// so that compilers vectorise loops of them for any instruction set.
#ifndef IOS_TF_CC_CORE_IR_FLOAT16_H_
#define IOS_TF_CC_CORE_IR_FLOAT16_H_

#include <cstdint>
#include <cstring>

namespace ios {

// Both functions are exact also if the processor treats subnormal float32
// numbers as zero: they compute subnormal float16 numbers by arithmetic of
// float32 numbers that are not subnormal.

inline float FloatFromFloat16(uint16_t value) {
  const uint32_t sign = (value & 0x8000u) << 16;
  const uint32_t magnitude = value & 0x7fffu;
  // Moves the exponent from its bias of 15 to that of 127. The largest
  // exponent, that of infinity and NaN, becomes 255.
  uint32_t bits = (magnitude << 13) + (112u << 23);
  bits = magnitude >= 0x7c00u ? bits + (112u << 23) : bits;
  // A subnormal number is a multiple of 2^-24.
  const float subnormal = static_cast<int32_t>(magnitude) * 0x1p-24f;
  uint32_t subnormal_bits;
  std::memcpy(&subnormal_bits, &subnormal, sizeof(subnormal));
  bits = sign | (magnitude < 0x0400u ? subnormal_bits : bits);
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

// Rounds to the nearest number, and to the even one if two are equally near.
inline uint16_t Float16FromFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Moves the exponent and rounds the significand. A carry goes to the
  // exponent.
  uint32_t result =
      ((magnitude + 0xfffu + ((magnitude >> 13) & 1u)) >> 13) - (112u << 10);
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // rounds to infinity
  result = magnitude > 0x7f800000u ? 0x7e00u : result;   // NaN
  // Rounds to a subnormal number by adding 0.5: the distance between float32
  // numbers from 0.5 to 1 is 2^-24, as between subnormal float16 numbers.
  float shifted;
  std::memcpy(&shifted, &magnitude, sizeof(shifted));
  shifted += 0.5f;
  uint32_t shifted_bits;
  std::memcpy(&shifted_bits, &shifted, sizeof(shifted_bits));
  result = magnitude < 0x38800000u ? shifted_bits - 0x3f000000u : result;
  return static_cast<uint16_t>(sign | result);
}

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_FLOAT16_H_
