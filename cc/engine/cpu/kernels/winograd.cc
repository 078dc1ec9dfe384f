#include "cc/engine/cpu/kernels/winograd.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/kernels/winograd_direct.h"
#include "cc/engine/cpu/kernels/winograd_guard.h"
#include "cc/engine/cpu/kernels/winograd_transforms.h"
#include "cc/engine/cpu/kernels/winograd_units.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/winograd.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/registers-inl.h"
#include "cc/engine/cpu/kernels/winograd_guard-inl.h"
#include "cc/engine/cpu/kernels/winograd_transforms-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// The numbers of points (input cells) and sides (output cells) of a tile, in
// height and width.
template <int kHigh, int kHighSide, int kWide, int kWideSide>
struct Tiling {
  static constexpr int kPoints[2] = {kHigh, kWide};
  static constexpr int kSide[2] = {kHighSide, kWideSide};
};

// The number of different cells among InnerCells(), in height (dimension 0) or
// width (dimension 1): 1 or 2.
template <typename Tiling, int kDimension>
constexpr int kInner =
    2 * Tiling::kSide[kDimension] > Tiling::kPoints[kDimension] + 1 ? 2 : 1;

// Transforms one vector of channels into one value for each plane. Returns, for
// each channel, the sum of the squares of all cells.
template <typename V, typename Tiling>
IOS_INLINE V TransformCells(
    const float* const (&from)[Tiling::kPoints[0]][Tiling::kPoints[1]],
    float* plane, int64_t tile_plane) {
  constexpr int kHigh = Tiling::kPoints[0], kWide = Tiling::kPoints[1];
  V columns[kHigh][kWide], squares{};
#pragma GCC unroll 8
  for (int k = 0; k < kWide; ++k) {
    V column[kHigh], of_column{};
#pragma GCC unroll 8
    for (int r = 0; r < kHigh; ++r) {
      std::memcpy(&column[r], from[r][k], sizeof(V));
      of_column += column[r] * column[r];
    }
    squares += of_column;
    TransformInput<kHigh>(column, &columns[0][k], kWide);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kHigh; ++r) {
    V row[kWide];
    TransformInput<kWide>(columns[r], row, 1);
#pragma GCC unroll 8
    for (int k = 0; k < kWide; ++k, plane += tile_plane) {
      std::memcpy(plane, &row[k], sizeof(V));
    }
  }
  return squares;
}

// Transforms a tile. Returns true if the tile is certainly even (see
// winograd_guard.h).
template <typename Tiling>
IOS_INLINE bool TransformTile(const WinogradPlan& plan,
                              const WinogradArguments& arguments,
                              const float* zeros, const Unit& unit,
                              const Place& place, float* to) {
  using V = Native::Vector;
  constexpr int kHigh = Tiling::kPoints[0], kWide = Tiling::kPoints[1];
  const float* cells[kHigh][kWide];
  for (int r = 0; r < kHigh; ++r) {
    const int64_t y = place.y - plan.top + r;
    const float* row = arguments.input + (place.image * plan.height + y) *
                                             plan.width * arguments.input_pitch;
    for (int k = 0; k < kWide; ++k) {
      const int64_t x = place.x - plan.left + k;
      const bool inside = y >= 0 && y < plan.height && x >= 0 && x < plan.width;
      cells[r][k] = inside ? row + x * arguments.input_pitch : zeros;
    }
  }
  QuickGuard<V, kInner<Tiling, 0>, kInner<Tiling, 1>> guard;
  const auto rows = InnerCells(place.high, plan.window[0]);
  const auto columns = InnerCells(place.wide, plan.window[1]);
  guard.SetCells([&](int r, int k) { return cells[rows[r]][columns[k]]; });
  for (int64_t c = 0; c < plan.channels; c += kGroup) {
    const int64_t end = std::min(c + kGroup, plan.channels);
    for (int64_t e = c; e < end; e += Width<V>()) {
      const float* from[kHigh][kWide];
      float padded[kHigh][kWide][Width<V>()];
      const bool whole = end - e >= Width<V>();
      if (!whole) std::memset(padded, 0, sizeof(padded));
      for (int r = 0; r < kHigh; ++r) {
        for (int k = 0; k < kWide; ++k) {
          from[r][k] = cells[r][k] + e;
          if (whole) continue;
          CopyPart(from[r][k], end - e, padded[r][k]);
          from[r][k] = padded[r][k];
        }
      }
      guard.Add(e, end - e,
                TransformCells<V, Tiling>(from, to + e - c, unit.tile_plane));
    }
    to += unit.rows * kGroup;
  }
  const uint32_t all = (uint32_t{1} << plan.window[0] * plan.window[1]) - 1;
  if (arguments.common_cells == all && guard.IsEven()) return true;
  return IsEvenTile(plan, place, arguments.common_cells, &cells[0][0]);
}

template <typename Tiling>
IOS_INLINE void TransformTiles(const WinogradPlan& plan,
                               const WinogradArguments& arguments,
                               const float* zeros, const Unit& unit) {
  for (int64_t block = 0; block < unit.blocks; ++block) {
    const int64_t begin = unit.BlockBegin(block);
    for (int64_t i = begin; i < unit.BlockBegin(block + 1); ++i) {
      const bool even = TransformTile<Tiling>(
          plan, arguments, zeros, unit, Place(plan, unit.first + i),
          unit.tiles + block * unit.block_floats + (i - begin) * kGroup);
      unit.by_definition[i] = even ? 0.0f : 1.0f;
    }
  }
}

// The operands of a matrix product on one plane: a block of tiles, and some
// vectors of filters.
struct Factors {
  const float* tiles;
  int64_t group_floats;
  const float* filter;
  int64_t filter_step;  // from one group of filters to the next
  int64_t channels;
  const float* ahead;  // the filters that are needed next
  int64_t lines;       // cache lines of `ahead` for each group of channels
  float* products;
};

// Computes the matrix product for kRows tiles.
template <int kRows, int kVectors>
IOS_INLINE void Multiply(const Factors& of) {
  using V = Native::Vector;
  constexpr int64_t kPerGroup = kGroup / Width<V>();
  V sums[kRows][kVectors] = {};
  const float *tiles = of.tiles, *filter = of.filter, *ahead = of.ahead;
  for (int64_t c = 0; c < of.channels; c += kGroup, tiles += of.group_floats) {
    for (int64_t i = 0; i < of.lines; ++i, ahead += kGroup) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v += kPerGroup) {
        __builtin_prefetch(ahead + v / kPerGroup * of.filter_step, /*rw=*/0,
                           /*locality=*/2);
      }
    }
    const int64_t count = std::min(kGroup, of.channels - c);
    for (int64_t i = 0; i < count; ++i, filter += kGroup) {
      V factors[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        std::memcpy(&factors[v],
                    filter + v / kPerGroup * of.filter_step +
                        v % kPerGroup * Width<V>(),
                    sizeof(V));
      }
      AddOuterProduct(tiles + i, kGroup, factors, sums);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      std::memcpy(of.products + r * kBlock + v * Width<V>(), &sums[r][v],
                  sizeof(V));
    }
  }
}

template <int kVectors, int kRows = Native::kRows>
IOS_INLINE void MultiplyRows(int64_t rows, const Factors& factors) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return MultiplyRows<kVectors, kRows - 1>(rows, factors);
    }
  }
  Multiply<kRows, kVectors>(factors);
}

// Computes the matrix products on all planes of the unit, for the block of
// filters that begins with `first_filter`.
void MultiplyPlanes(const WinogradPlan& plan,
                    const WinogradArguments& arguments, const Unit& unit,
                    int64_t first_filter) {
  constexpr int64_t kAtOnce = Native::kVectors * Width<Native::Vector>();
  const int64_t end = std::min(first_filter + kBlock, unit.filter_end);
  const int64_t filter_plane = plan.channels * kGroup;
  Factors factors;
  factors.group_floats = unit.rows * kGroup;
  factors.filter_step = plan.planes() * filter_plane;
  factors.channels = plan.channels;
  // In a large network, filters come from main memory. So each block of tiles,
  // while it is multiplied with some filters, prefetches a part of the next
  // filters.
  factors.lines = CeilDiv(kGroup, unit.blocks);
  const int64_t part = CeilDiv(plan.channels, kGroup) * factors.lines * kGroup;
  const auto filter_at = [&](int64_t plane, int64_t k) {
    return arguments.filter + k / kGroup * factors.filter_step +
           plane * filter_plane;
  };
  for (int64_t plane = 0; plane < plan.planes(); ++plane) {
    for (int64_t k = first_filter; k < end; k += kAtOnce) {
      factors.filter = filter_at(plane, k);
      factors.ahead = k + kAtOnce < end ? filter_at(plane, k + kAtOnce)
                                        : filter_at(plane + 1, first_filter);
      factors.tiles = unit.tiles + plane * unit.tile_plane;
      factors.products =
          unit.products + plane * unit.product_plane + k - first_filter;
      for (int64_t block = 0; block < unit.blocks; ++block) {
        const int64_t rows =
            unit.BlockBegin(block + 1) - unit.BlockBegin(block);
        if (kAtOnce == kGroup || end - k > kGroup) {
          MultiplyRows<Native::kVectors>(rows, factors);
        } else {
          MultiplyRows<kGroup / Width<Native::Vector>()>(rows, factors);
        }
        factors.tiles += unit.block_floats;
        factors.products += rows * kBlock;
        factors.ahead += part;
      }
    }
  }
}

template <typename Tiling>
IOS_INLINE void TransformProducts(const WinogradPlan& plan,
                                  const WinogradArguments& arguments,
                                  const Unit& unit, int64_t first_filter) {
  using V = Native::Vector;
  constexpr int kHigh = Tiling::kPoints[0], kWide = Tiling::kPoints[1];
  constexpr int kHighSide = Tiling::kSide[0], kWideSide = Tiling::kSide[1];
  const int64_t end = std::min(first_filter + kBlock, unit.filter_end);
  for (int64_t i = 0; i < unit.count; ++i) {
    const Place place(plan, unit.first + i);
    if (unit.by_definition[i] != 0.0f) {
      ComputeDirectly(plan, arguments, place, first_filter, end - first_filter);
      continue;
    }
    const int64_t corner =
        (place.image * plan.out_height + place.y) * plan.out_width + place.x;
    V finite{};  // NaN if a result is not finite
    for (int64_t f = first_filter; f < end; f += Width<V>()) {
      const float* plane = unit.products + i * kBlock + f - first_filter;
      V columns[kHighSide][kWide];
#pragma GCC unroll 8
      for (int k = 0; k < kWide; ++k) {
        V column[kHigh], transformed[kHighSide];
#pragma GCC unroll 8
        for (int r = 0; r < kHigh; ++r) {
          std::memcpy(&column[r], plane + (r * kWide + k) * unit.product_plane,
                      sizeof(V));
        }
        TransformOutput<kHigh, kHighSide>(column, transformed);
#pragma GCC unroll 4
        for (int r = 0; r < kHighSide; ++r) columns[r][k] = transformed[r];
      }
      V bias{};
      if (arguments.bias) bias = Load<V>(arguments.bias + f, end - f);
#pragma GCC unroll 4
      for (int r = 0; r < kHighSide; ++r) {
        if (r >= place.high) break;
        V row[kWideSide];
        TransformOutput<kWide, kWideSide>(columns[r], row);
#pragma GCC unroll 4
        for (int k = 0; k < kWideSide; ++k) {
          if (k >= place.wide) break;
          V v = row[k] + bias;
          finite += v * 0.0f;
          const int64_t pixel = corner + r * plan.out_width + k;
          if (arguments.residual) {
            v += Load<V>(
                arguments.residual + pixel * arguments.residual_pitch + f,
                end - f);
          }
          ActivateInRegisters(arguments.activation, &v);
          Store(v, end - f,
                arguments.output + pixel * arguments.output_pitch + f);
        }
      }
    }
    float sum = 0.0f;
    for (int64_t e = 0; e < Width<V>(); ++e) sum += finite[e];
    if (sum != 0.0f) {  // NaN
      ComputeDirectly(plan, arguments, place, first_filter, end - first_filter);
    }
  }
}

template <typename Tiling>
void RunUnits(const WinogradPlan& plan, const WinogradArguments& arguments,
              int64_t begin, int64_t end, float* scratch) {
  const int64_t zeros = CeilDiv(plan.channels, kGroup) * kGroup;
  std::memset(scratch, 0, zeros * sizeof(float));
  for (int64_t number = begin; number < end; ++number) {
    const Unit unit(plan, number, scratch + zeros);
    TransformTiles<Tiling>(plan, arguments, scratch, unit);
    for (int64_t f = unit.filter_begin; f < unit.filter_end; f += kBlock) {
      MultiplyPlanes(plan, arguments, unit, f);
      TransformProducts<Tiling>(plan, arguments, unit, f);
    }
  }
}

using RunFunction = void (*)(const WinogradPlan&, const WinogradArguments&,
                             int64_t, int64_t, float*);

// Returns the function that is compiled for the plan's points and sides, or
// null.
RunFunction Find(const WinogradPlan& plan) {
  RunFunction found = nullptr;
  const auto consider = [&](auto tiling) {
    using T = decltype(tiling);
    if (plan.points[0] == T::kPoints[0] && plan.points[1] == T::kPoints[1] &&
        plan.side[0] == T::kSide[0] && plan.side[1] == T::kSide[1]) {
      found = RunUnits<T>;
    }
  };
  consider(Tiling<4, 2, 4, 2>());
  consider(Tiling<6, 4, 6, 4>());
  consider(Tiling<6, 2, 6, 2>());
  consider(Tiling<1, 1, 4, 2>());
  consider(Tiling<4, 2, 1, 1>());
  consider(Tiling<1, 1, 6, 4>());
  consider(Tiling<6, 4, 1, 1>());
  consider(Tiling<1, 1, 6, 2>());
  consider(Tiling<6, 2, 1, 1>());
  consider(Tiling<1, 1, 8, 2>());
  consider(Tiling<8, 2, 1, 1>());
  return found;
}

void RunAnyUnits(const WinogradPlan& plan, const WinogradArguments& arguments,
                 int64_t begin, int64_t end, float* scratch) {
  Find(plan)(plan, arguments, begin, end, scratch);
}

int64_t RowsInRegisters() { return Native::kRows; }

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

int64_t MaxRows() { return IOS_DISPATCH(RowsInRegisters)(); }

void RunWinograd(const WinogradPlan& plan, const WinogradArguments& arguments,
                 int64_t begin, int64_t end, float* scratch) {
  IOS_DISPATCH(RunAnyUnits)(plan, arguments, begin, end, scratch);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
