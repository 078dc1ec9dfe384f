// The element types of tensors, and their conversion on the host.
#ifndef IOS_TF_CC_CORE_IR_DATA_TYPE_H_
#define IOS_TF_CC_CORE_IR_DATA_TYPE_H_

#include <cstdint>
#include <string>

#include "cc/core/status.h"

namespace ios {

enum class DataType { kFloat32, kFloat16, kBFloat16 };

const char* ToString(DataType type);  // "float32", "float16", "bfloat16"
StatusOr<DataType> DataTypeFromString(const std::string& name);

inline int64_t SizeOf(DataType type) {
  return type == DataType::kFloat32 ? 4 : 2;
}

// Converts `count` values to `type` and writes them to `to`. Rounds to the
// nearest value, and to the even one if two are equally near.
void ConvertFromFloat(const float* from, int64_t count, DataType type,
                      void* to);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_DATA_TYPE_H_
