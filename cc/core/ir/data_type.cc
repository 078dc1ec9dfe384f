#include "cc/core/ir/data_type.h"

#include <cmath>
#include <cstring>

#include "cc/core/document.h"
#include "cc/core/ir/float16.h"

namespace ios {
namespace {

uint16_t ToBFloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value)) return (bits >> 16) | 0x40;  // becomes a quiet NaN
  // The addition rounds by its carry to the upper half, and to the even number
  // in a tie.
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
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
    out[i] = type == DataType::kFloat16 ? Float16FromFloat(from[i])
                                        : ToBFloat16(from[i]);
  }
}

}  // namespace ios
