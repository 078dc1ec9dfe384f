#include "cc/engine/cpu/kernels/bfloat16.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/kernels/views.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/bfloat16.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

void WidenRow(const uint16_t* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    std::memcpy(to + i, &bits, sizeof(bits));
  }
}

void NarrowRow(const float* from, int64_t n, uint16_t* to) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, from + i, sizeof(bits));
    // The carry of the addition rounds, to the even number in a tie. A NaN
    // would become infinity if its fraction overflowed.
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40;
    to[i] =
        static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
void Widen(const BFloat16* from, int64_t n, float* to) {
  IOS_DISPATCH(WidenRow)(&from->bits, n, to);
}

void Narrow(const float* from, int64_t n, BFloat16* to) {
  IOS_DISPATCH(NarrowRow)(from, n, &to->bits);
}

void ConvertTensor(const void* from, const TensorView& from_view, void* to,
                   const TensorView& to_view) {
  const int64_t channels = to_view.channels(), pixels = to_view.pixels();
  const auto convert = [&](int64_t from_element, int64_t to_element,
                           int64_t n) {
    if (to_view.dtype == DataType::kFloat32) {
      Widen(static_cast<const BFloat16*>(from) + from_element, n,
            static_cast<float*>(to) + to_element);
    } else {
      Narrow(static_cast<const float*>(from) + from_element, n,
             static_cast<BFloat16*>(to) + to_element);
    }
  };
  if (pixels == 0 || channels == 0) return;
  if (from_view.dense() && to_view.dense()) {
    ParallelFor(pixels * channels, kGrainFloats,
                [&](int64_t begin, int64_t end) {
                  convert(begin, begin, end - begin);
                });
    return;
  }
  ParallelFor(pixels, std::max<int64_t>(1, kGrainFloats / channels),
              [&](int64_t begin, int64_t end) {
                for (int64_t p = begin; p < end; ++p) {
                  convert(p * from_view.pitch, p * to_view.pitch, channels);
                }
              });
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
