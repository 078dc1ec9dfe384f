#include "cc/engine/cpu/kernels/winograd_guard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/winograd_guard.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

namespace ios::cpu::IOS_TARGET {
namespace {

float LargestMagnitude(const float* x, int64_t n) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    int32_t bits;
    std::memcpy(&bits, x + i, sizeof(float));
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof(float));
  return magnitude;
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

constexpr int64_t kMostPoints = 8 * 8;

}  // namespace

bool IsEvenTile(const WinogradPlan& plan, const Place& place,
                uint32_t common_cells, const float* const* cells) {
  const auto [kh, kw] = plan.window;
  const int64_t wide = plan.points[1];
  float magnitudes[kMostPoints], tile = 0.0f;
  for (int64_t i = 0; i < plan.planes(); ++i) {
    magnitudes[i] = IOS_DISPATCH(LargestMagnitude)(cells[i], plan.channels);
    if (std::isnan(magnitudes[i])) return false;
    tile = std::max(tile, magnitudes[i]);
  }
  for (int64_t y = 0; y < place.high; ++y) {
    for (int64_t x = 0; x < place.wide; ++x) {
      float window = 0.0f;
      for (int64_t r = 0; r < kh; ++r) {
        for (int64_t k = 0; k < kw; ++k) {
          if ((common_cells >> (r * kw + k) & 1) == 0) continue;
          window = std::max(window, magnitudes[(y + r) * wide + x + k]);
        }
      }
      if (!IsEven(tile, window)) return false;
    }
  }
  return true;
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
