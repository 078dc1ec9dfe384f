// Convolutions by Winograd's minimal filtering (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016).
//
// An output tile has `side` cells in each dimension in which the window has
// more than one cell. The tile depends on side + window - 1 cells of the input.
// Input cells and filter cells are taken as the coefficients of polynomials,
// which are evaluated at side + window - 1 points. The values of both at the
// same point are multiplied.
//
// A plane has the values of all tiles at one point. On each plane, a matrix
// [tiles, channels] is multiplied by a matrix [channels, filters]. For 3x3
// windows, this takes 4 multiplications per output cell (side 2) or 2.25 (side
// 4), instead of 9.
//
// The work is cut into units. Each unit has a strip of tiles and a range of
// filters. Its planes stay in a core's L2 cache.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_H_

#include <array>
#include <cstdint>

#include "cc/core/ir/block.h"

namespace ios::cpu {

struct WinogradPlan {
  // Plans a Conv2D with the algorithm op.algorithm, for `threads` threads that
  // share the units.
  WinogradPlan(const Operator& op, const Shape& input, const Shape& output,
               int threads);

  int64_t planes() const { return points[0] * points[1]; }
  int64_t tiles() const { return images * tiles_high * tiles_wide; }
  int64_t units() const { return strips * parts; }
  int64_t filter_floats() const;   // transformed
  int64_t scratch_floats() const;  // of a thread

  // Height and width of the window, of an output tile (`side`), and of an input
  // tile (`points`).
  std::array<int64_t, 2> window, side, points;
  int64_t images, height, width, channels;
  int64_t out_height, out_width, filters;
  int64_t top, left;  // padding
  int64_t tiles_high, tiles_wide;
  // The numbers of ranges into which all tiles (strips) and all filters (parts)
  // are cut.
  int64_t strips = 0, parts = 0;
};

// Transforms `filter`, which is in TensorFlow's layout [kh,kw,C,filters].
// Writes plan.filter_floats() floats.
void TransformFilter(const WinogradPlan& plan, const float* filter, float* to);

// Returns the cells of the window in which every filter has nonzero factors,
// with one bit (r * kw + k) per cell. In a masked or merged convolution, some
// filters have only zeros in some cells, and their outputs do not depend on
// these cells. Filters that are zero everywhere are ignored.
uint32_t CommonCells(const WinogradPlan& plan, const float* filter);

struct WinogradArguments {
  const float* input = nullptr;  // pixels are input_pitch floats apart
  int64_t input_pitch = 0;
  const float* filter = nullptr;    // transformed
  const float* plain = nullptr;     // not transformed
  uint32_t common_cells = 0;        // of `plain`
  const float* bias = nullptr;      // null for none
  const float* residual = nullptr;  // null for none
  int64_t residual_pitch = 0;
  Activation::Kind activation = Activation::kNone;  // see IsInRegisters()
  float* output = nullptr;
  int64_t output_pitch = 0;
};

// Computes the units `begin` to `end` (exclusive) on the calling thread.
// Transforms spread rounding errors, infinity and NaN over a tile. So a tile is
// computed without transforms if it is not even (see winograd_guard.h), or if
// one of its results is not finite.
void RunWinograd(const WinogradPlan& plan, const WinogradArguments& arguments,
                 int64_t begin, int64_t end, float* scratch);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_H_
