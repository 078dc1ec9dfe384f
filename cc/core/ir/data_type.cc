#include "cc/core/ir/data_type.h"

#include <cmath>
#include <cstring>

#include "cc/core/document.h"

namespace ios {
namespace {

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Returns `bits` >> `shift`, rounded to the nearest integer; a tie is rounded
// to the even integer.
uint32_t RoundedShift(uint32_t bits, int shift) {
  const uint32_t half = 1u << (shift - 1);
  return (bits + half - 1 + ((bits >> shift) & 1)) >> shift;
}

uint16_t ToBFloat16(float value) {
  const uint32_t bits = Bits(value);
  if (std::isnan(value)) return (bits >> 16) | 0x40;  // stays a quiet NaN
  return RoundedShift(bits, 16);
}

uint16_t ToFloat16(float value) {
  const uint32_t bits = Bits(value);
  const uint16_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to infinity
  if (magnitude < 0x38800000) {                       // subnormal, in 2^-24
    return sign | static_cast<uint16_t>(
                      std::nearbyint(std::ldexp(std::fabs(value), 24)));
  }
  return sign | (RoundedShift(magnitude, 13) - (112 << 10));
}

}  // namespace

const char* ToString(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
  }
  return "";
}

StatusOr<DataType> DataTypeFromString(const std::string& name) {
  for (DataType type :
       {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    if (name == ToString(type)) return type;
  }
  return InvalidArgument("dtype " + Quoted(name) +
                         " is not float32, float16 or bfloat16");
}

void ConvertFromFloat(const float* from, int64_t count, DataType type,
                      void* to) {
  if (count == 0) return;  // the pointers may be null
  if (type == DataType::kFloat32) {
    std::memcpy(to, from, count * sizeof(float));
    return;
  }
  auto* const out = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < count; ++i) {
    out[i] =
        type == DataType::kFloat16 ? ToFloat16(from[i]) : ToBFloat16(from[i]);
  }
}

}  // namespace ios
