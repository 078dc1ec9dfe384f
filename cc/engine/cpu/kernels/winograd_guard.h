// Decides which tiles Winograd's transforms may compute.
//
// All outputs of a tile share its rounding errors, which are relative to the
// largest magnitude of the tile. In a direct convolution, the errors are
// relative to the magnitudes in the output's own window. A tile is even if the
// largest magnitude of each window is close to that of the tile. The errors of
// both methods are then alike.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_GUARD_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_GUARD_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "cc/engine/cpu/kernels/winograd.h"
#include "cc/engine/cpu/kernels/winograd_units.h"

namespace ios::cpu {

// In an even tile, the largest magnitude is at most this many times that of
// each window.
inline constexpr float kUnevenness = 16.0f;

// Returns true if a window's largest magnitude is close to its tile's. Returns
// false for NaN.
inline bool IsEven(float tile, float window) {
  return tile <= kUnevenness * window;
}

// Returns two rows (or columns) of a tile. Each of its `outputs` windows
// contains at least one of them.
inline std::array<int64_t, 2> InnerCells(int64_t outputs, int64_t window) {
  const int64_t center = (outputs + window - 2) / 2;
  return {std::min(window - 1, center), std::max(outputs - 1, center)};
}

// Returns exactly whether the tile is even. `cells` holds a pixel for each of
// its points[0] * points[1] cells.
bool IsEvenTile(const WinogradPlan& plan, const Place& place,
                uint32_t common_cells, const float* const* cells);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_GUARD_H_
