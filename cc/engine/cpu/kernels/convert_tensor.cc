#include "cc/engine/cpu/kernels/convert_tensor.h"

#include <algorithm>
#include <cstdint>

#include "cc/core/ir/float16.h"
#include "cc/engine/cpu/kernels/bfloat16.h"
#include "cc/engine/cpu/kernels/float_row.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/convert_tensor.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

void WidenFloat16(const uint16_t* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = FloatFromFloat16(from[i]);
}

void NarrowToFloat16(const float* from, int64_t n, uint16_t* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = Float16FromFloat(from[i]);
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

// Reads numbers of a type of 2 bytes.
void WidenRow(const uint16_t* from, DataType dtype, int64_t n, float* to) {
  if (dtype == DataType::kBFloat16) {
    return Widen(reinterpret_cast<const BFloat16*>(from), n, to);
  }
  IOS_DISPATCH(WidenFloat16)(from, n, to);
}

// Writes numbers of a type of 2 bytes.
void NarrowRow(const float* from, int64_t n, DataType dtype, uint16_t* to) {
  if (dtype == DataType::kBFloat16) {
    return Narrow(from, n, reinterpret_cast<BFloat16*>(to));
  }
  IOS_DISPATCH(NarrowToFloat16)(from, n, to);
}

// Converts between two types of 2 bytes.
void ConvertRow(const uint16_t* from, DataType from_dtype, int64_t n,
                DataType to_dtype, uint16_t* to) {
  constexpr int64_t kAtOnce = 1024;
  float floats[kAtOnce];
  for (int64_t i = 0; i < n; i += kAtOnce) {
    const int64_t count = std::min(kAtOnce, n - i);
    WidenRow(from + i, from_dtype, count, floats);
    NarrowRow(floats, count, to_dtype, to + i);
  }
}

}  // namespace

void ConvertTensor(const void* from, const TensorView& from_view, void* to,
                   const TensorView& to_view) {
  const int64_t channels = to_view.channels(), pixels = to_view.pixels();
  const auto convert = [&](int64_t from_element, int64_t to_element,
                           int64_t n) {
    const float* const floats = static_cast<const float*>(from) + from_element;
    const uint16_t* const narrow =
        static_cast<const uint16_t*>(from) + from_element;
    uint16_t* const to_narrow = static_cast<uint16_t*>(to) + to_element;
    if (to_view.dtype == DataType::kFloat32) {
      WidenRow(narrow, from_view.dtype, n,
               static_cast<float*>(to) + to_element);
    } else if (from_view.dtype == DataType::kFloat32) {
      NarrowRow(floats, n, to_view.dtype, to_narrow);
    } else {
      ConvertRow(narrow, from_view.dtype, n, to_view.dtype, to_narrow);
    }
  };
  if (pixels == 0 || channels == 0) return;
  ForRows<float>(pixels, channels, from_view.dense() && to_view.dense(),
                 [&](int64_t p, int64_t c, int64_t n) {
                   convert(p * from_view.pitch + c, p * to_view.pitch + c, n);
                 });
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
