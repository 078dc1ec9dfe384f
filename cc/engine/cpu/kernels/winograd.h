// Convolutions by Winograd's minimal filtering (Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks", 2016).
//
// In each dimension in which the window has more than one cell, `side` cells of
// the output are made of side + window - 1 of the input, which are taken for a
// polynomial: its values at as many points are multiplied with those of the
// filter. On the plane of each point, tiles x channels are multiplied with
// channels x filters: for 3x3 windows that is 4 products a cell of the output
// (side 2), or 2.25 (side 4), instead of 9.
//
// The work is cut into units, of a strip of tiles and a range of filters each,
// such that a unit's planes stay in a core's cache.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_H_

#include <array>
#include <cstdint>

#include "cc/core/ir/block.h"

namespace ios::cpu {

struct WinogradPlan {
  // Of a Conv2D that has op.algorithm, for `threads` that share the units.
  WinogradPlan(const Operator& op, const Shape& input, const Shape& output,
               int threads);

  int64_t planes() const { return points[0] * points[1]; }
  int64_t tiles() const { return images * tiles_high * tiles_wide; }
  int64_t units() const { return strips * parts; }
  int64_t filter_floats() const;   // transformed
  int64_t scratch_floats() const;  // of a thread

  // In height and width: of the window, of a tile of the output, of the input.
  std::array<int64_t, 2> window, side, points;
  int64_t images, height, width, channels;
  int64_t out_height, out_width, filters;
  int64_t top, left;  // padding
  int64_t tiles_high, tiles_wide;
  int64_t strips = 0, parts = 0;  // of all tiles, of all filters
};

// `filter` is [kh,kw,C,filters], as TensorFlow has it.
void TransformFilter(const WinogradPlan& plan, const float* filter, float* to);

// The cells of the window at which every filter has factors, one bit for each
// (r * kw + k), except for filters that are zero everywhere. A masked or merged
// filter has cells without factors: outputs do not depend on these.
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
  Activation::Kind activation = Activation::kNone;  // or kRelu, or kRelu6
  float* output = nullptr;
  int64_t output_pitch = 0;
};

// Computes units [begin, end) on the calling thread. Transforms spread rounding
// errors, infinity and NaN over a tile. So a tile is computed by the definition
// if it is not even (winograd_guard.h), or if one of its results is not finite.
void RunWinograd(const WinogradPlan& plan, const WinogradArguments& arguments,
                 int64_t begin, int64_t end, float* scratch);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_H_
