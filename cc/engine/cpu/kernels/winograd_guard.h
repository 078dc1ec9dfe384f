// Decides which tiles Winograd's transforms may compute.
//
// With Winograd's transforms, rounding errors of all outputs of a tile are
// relative to the largest magnitude of the whole tile. In a direct convolution,
// they are relative to the magnitudes in the output's own window. A tile is
// even if the largest magnitude of each window is close to the largest
// magnitude of the tile. The errors of both methods are then similar.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_GUARD_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_GUARD_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "cc/engine/cpu/kernels/winograd.h"
#include "cc/engine/cpu/kernels/winograd_units.h"

namespace ios::cpu {

// In an even tile, the largest magnitude of the tile is at most this factor
// times the largest magnitude of each window.
inline constexpr float kUnevenness = 16.0f;

// Compares the largest magnitudes of a tile and of one of its windows. Returns
// true if they are close, and false for NaN.
inline bool IsEven(float tile, float window) {
  return tile <= kUnevenness * window;
}

// Returns two rows (or columns) of a tile such that each of its `outputs`
// windows contains at least one of the two.
inline std::array<int64_t, 2> InnerCells(int64_t outputs, int64_t window) {
  const int64_t center = (outputs + window - 2) / 2;
  return {std::min(window - 1, center), std::max(outputs - 1, center)};
}

// Returns whether the tile is even, by an exact check. `cells` has the
// addresses of the pixels of its points[0] * points[1] cells.
bool IsEvenTile(const WinogradPlan& plan, const Place& place,
                uint32_t common_cells, const float* const* cells);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_GUARD_H_
