#include "cc/engine/cpu/kernels/gemm.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/caches.h"
#include "cc/engine/cpu/kernels/registers.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/gemm.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/registers-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// The number of filters in a panel. A panel is a group of filters that are
// computed together.
constexpr int64_t kPanel = Native::kVectors * Width<Native::Vector>();

// The largest number of channels in one step of a tile. A tile with more
// channels is stored after each step and read again. The part of a panel for
// this many channels may exceed a core's L1 cache; it is read in order, so that
// this costs less than more steps would.
constexpr int64_t kDepth = 768;

// A unit is computed in blocks of this many pixels: each block is multiplied
// with all panels before the next block. With kDepth channels, a block fills
// half of an L2 cache of 512 KiB. 84 is a multiple of the tile heights of AVX2
// and AVX-512.
constexpr int64_t kPixels = 84;

// A large output is written almost in the order of its addresses if the factors
// fill at most half of an L1 cache of 32 KiB: a block then has only one or a
// few tiles of pixels.
constexpr int64_t kFewFactorBytes = 16 << 10;
constexpr int64_t kFewPixels = 14 / Native::kRows * Native::kRows;

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kLine = kLineBytes / kFloat;  // floats of a cache line

// The factors of this many channels are prefetched at once. If it were only
// one, the code for a few channels between two prefetches would take a fifth
// longer.
constexpr int64_t kAtOnce = 4;

// A part of a unit of work: some pixels, times the filters of one panel. The
// last panel may have fewer filters than the others.
struct Tile {
  const float* input;
  int64_t input_pitch;
  const float* panel;
  const float* ahead;  // factors of the next panel, to prefetch
  int64_t interval;    // channels between two prefetches from `ahead`
  int64_t depth;       // channels
  float* output;
  int64_t output_pitch;
  int64_t filters;
  bool first, last;  // whether this is the first or last step over channels
  const float* bias;
  const float* residual;
  int64_t residual_pitch;
  Activation::Kind activation;  // see IsInRegisters()
};

// Adds rows of floats, which are `pitch` floats apart, to the rows of `sums`.
// If `pitch` is 0, adds the same row to all rows. The last vector of a row has
// `last` floats.
template <int kRows, int kVectors, typename V>
IOS_INLINE void AddRows(const float* from, int64_t pitch, int64_t last,
                        V (&sums)[kRows][kVectors]) {
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const float* const terms = from + r * pitch + v * Width<V>();
      sums[r][v] += v < kVectors - 1 ? LoadVector(terms) : Load<V>(terms, last);
    }
  }
}

// Finishes a tile: adds the bias and the residual, applies the activation, and
// writes the tile.
template <int kRows, int kVectors, typename V>
IOS_INLINE void Finish(const Tile& tile, int64_t last,
                       V (&sums)[kRows][kVectors]) {
  if (tile.last) {
    if (tile.bias) AddRows(tile.bias, 0, last, sums);
    if (tile.residual) AddRows(tile.residual, tile.residual_pitch, last, sums);
    if (tile.activation != Activation::kNone) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          ActivateInRegisters(tile.activation, &sums[r][v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Store(sums[r][v], v < kVectors - 1 ? Width<V>() : last,
            tile.output + r * tile.output_pitch + v * Width<V>());
    }
  }
}

// Computes a tile. Its last vector may be only partly full.
template <int kRows, int kVectors>
IOS_INLINE void Multiply(const Tile& tile) {
  using V = Native::Vector;
  const int64_t last = tile.filters - (kVectors - 1) * Width<V>();
  V sums[kRows][kVectors] = {};
  if (!tile.first) AddRows(tile.output, tile.output_pitch, last, sums);
  const float* panel = tile.panel;
  const float* ahead = tile.ahead;
  for (int64_t c = 0; c < tile.depth;) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < kAtOnce * kPanel; i += kLine) {
      __builtin_prefetch(ahead + i, /*rw=*/0, /*locality=*/2);
    }
    ahead += kAtOnce * kPanel;
    const int64_t end = std::min(c + tile.interval, tile.depth);
    for (; c < end; ++c, panel += kPanel) {
      V factors[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        std::memcpy(&factors[v], panel + v * Width<V>(), sizeof(V));
      }
      AddOuterProduct(tile.input + c, tile.input_pitch, factors, sums);
    }
  }
  // The first call is compiled without tests whether the last vector is full.
  if (last == Width<V>()) {
    Finish(tile, Width<V>(), sums);
  } else {
    Finish(tile, last, sums);
  }
}

// Computes only those vectors of a panel that contain filters.
template <int kRows, int kVectors = Native::kVectors>
IOS_INLINE void MultiplyVectors(const Tile& tile) {
  if constexpr (kVectors > 1) {
    if (tile.filters <= (kVectors - 1) * Width<Native::Vector>()) {
      return MultiplyVectors<kRows, kVectors - 1>(tile);
    }
  }
  Multiply<kRows, kVectors>(tile);
}

template <int kRows = Native::kRows>
IOS_INLINE void MultiplyRows(int64_t rows, const Tile& tile) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return MultiplyRows<kRows - 1>(rows, tile);
  }
  MultiplyVectors<kRows>(tile);
}

void RunUnits(const GemmPlan& plan, const GemmArguments& arguments,
              int64_t begin, int64_t end) {
  const Activation& activation = arguments.activation;
  const bool at_once = IsInRegisters(activation);
  const int64_t panels = CeilDiv(plan.filters, kPanel);
  Tile tile;
  tile.input_pitch = arguments.input_pitch;
  tile.output_pitch = arguments.output_pitch;
  tile.residual_pitch = arguments.residual_pitch;
  tile.activation = at_once ? activation.kind : Activation::kNone;
  // All steps have about the same number of channels.
  const int64_t steps = CeilDiv(plan.channels, kDepth);
  for (int64_t number = begin; number < end; ++number) {
    const int64_t strip = number / plan.parts, part = number % plan.parts;
    const int64_t first_panel = part * panels / plan.parts;
    const int64_t last_panel = (part + 1) * panels / plan.parts;
    const int64_t first_filter = first_panel * kPanel;
    const int64_t end_filter = std::min(last_panel * kPanel, plan.filters);
    const int64_t first_pixel = strip * plan.pixels / plan.strips;
    const int64_t end_pixel = (strip + 1) * plan.pixels / plan.strips;
    const int64_t all = end_pixel - first_pixel;
    const int64_t unit_filters = end_filter - first_filter;
    const int64_t factor_bytes = unit_filters * plan.channels * kFloat;
    const bool in_order = unit_filters > kPanel &&
                          factor_bytes <= kFewFactorBytes &&
                          all * unit_filters * kFloat > kImageBytes;
    const int64_t block = in_order ? kFewPixels : kPixels;
    const int64_t at_a_time = CeilDiv(all, CeilDiv(all, block));
    for (int64_t p = first_pixel; p < end_pixel; p += at_a_time) {
      const int64_t count = std::min(at_a_time, end_pixel - p);
      // All tiles have about the same height, because a low tile has too few
      // independent sums to keep the processor busy.
      const int64_t tiles = CeilDiv(count, Native::kRows);
      const int64_t low = count / tiles, higher = count % tiles;
      // In a large network, filters come from main memory. So each tile, while
      // it is computed with one panel, prefetches a part of the next panel.
      // After the first block, the filters may be in the L2 cache.
      const bool prefetches = p == first_pixel || factor_bytes > kFactorBytes;
      for (int64_t step = 0; step < steps; ++step) {
        const int64_t channel = step * plan.channels / steps;
        tile.depth = (step + 1) * plan.channels / steps - channel;
        tile.first = step == 0;
        tile.last = step == steps - 1;
        tile.interval = prefetches ? kAtOnce * tiles : tile.depth;
        const int64_t ahead = CeilDiv(tile.depth, tiles) * kPanel;
        for (int64_t f = first_filter; f < end_filter; f += kPanel) {
          tile.panel = arguments.filter + f * plan.channels + channel * kPanel;
          const float* const next = f + kPanel < end_filter
                                        ? tile.panel + kPanel * plan.channels
                                        : arguments.filter +
                                              first_filter * plan.channels +
                                              (channel + tile.depth) * kPanel;
          tile.filters = std::min(kPanel, end_filter - f);
          tile.bias = arguments.bias ? arguments.bias + f : nullptr;
          for (int64_t i = 0, pixel = p; i < tiles; ++i) {
            const int64_t rows = low + (i < higher);
            tile.ahead = next + i * ahead;
            tile.input =
                arguments.input + pixel * arguments.input_pitch + channel;
            tile.output = arguments.output + pixel * arguments.output_pitch + f;
            tile.residual =
                arguments.residual
                    ? arguments.residual + pixel * arguments.residual_pitch + f
                    : nullptr;
            MultiplyRows(rows, tile);
            pixel += rows;
          }
        }
      }
      if (at_once) continue;
      for (int64_t i = 0; i < count; ++i) {
        float* const row =
            arguments.output + (p + i) * arguments.output_pitch + first_filter;
        ActivateRow(row, end_filter - first_filter, activation, row);
      }
    }
  }
}

int64_t FiltersOfPanel() { return kPanel; }

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

GemmPlan::GemmPlan(int64_t pixels, int64_t channels, int64_t filters,
                   int threads)
    : pixels(pixels), channels(channels), filters(filters) {
  // Each thread gets several units, so that little work is delayed if a thread
  // loses its core. The number of units is a multiple of the number of threads,
  // and a unit must not have too few pixels.
  constexpr int64_t kPerThread = 2, kLeastPixels = 56;
  const int64_t wanted = threads == 1 ? 1 : threads * kPerThread;
  strips = std::min(CeilDiv(pixels, kLeastPixels), wanted);
  parts = std::min(CeilDiv(wanted, std::max<int64_t>(strips, 1)),
                   CeilDiv(filters, GemmPanel()));
}

int64_t GemmPanel() { return IOS_DISPATCH(FiltersOfPanel)(); }

void RunGemm(const GemmPlan& plan, const GemmArguments& arguments,
             int64_t begin, int64_t end) {
  IOS_DISPATCH(RunUnits)(plan, arguments, begin, end);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
