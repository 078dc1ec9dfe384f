#include "cc/engine/cpu/kernels/bfloat16_block.h"

#include <algorithm>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "cc/engine/cpu/kernels/bfloat16.h"
#include "cc/engine/cpu/kernels/instruction_set.h"
#include "cc/engine/cpu/kernels/registers.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/bfloat16_block.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"
#include "cc/engine/cpu/kernels/registers-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// Computes kRows rows of a block, for the filters that begin at `filter` and
// fill Native::kVectors vectors. The numbers are converted to float32.
template <int kRows>
IOS_INLINE void MultiplyRows(const ProductBlock& block, int64_t row,
                             int64_t filter) {
  using V = Native::Vector;
  constexpr int kVectors = Native::kVectors;
  V sums[kRows][kVectors] = {};
  static_assert(kVectors * Width<V>() <= 2 * kTile);
  for (int64_t step = 0; step < block.steps; ++step) {
    const BFloat16* const cells =
        block.cells + row * block.pitch + block.offsets[step];
    const BFloat16* factors = block.factors + step * block.depth * kPanel +
                              filter / kTile * block.depth * kTile +
                              filter % kTile * 2;
    for (int64_t d = 0; d < block.depth; d += 2, factors += 2 * kTile) {
      Pair<V> pairs[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int64_t f = v * Width<V>();
        pairs[v] = LoadPair<V>(factors + f / kTile * block.depth * kTile +
                               f % kTile * 2);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const TwoFloats values = ToFloats(cells + r * block.pitch + d);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] += values.first * pairs[v].even;
          sums[r][v] += values.second * pairs[v].odd;
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    std::memcpy(block.sums + (row + r) * kPanel + filter, &sums[r],
                sizeof(sums[r]));
  }
}

template <int kRows = Native::kRows>
IOS_INLINE void MultiplyAtMost(int64_t rows, const ProductBlock& block,
                               int64_t row, int64_t filter) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return MultiplyAtMost<kRows - 1>(rows, block, row, filter);
    }
  }
  MultiplyRows<kRows>(block, row, filter);
}

void MultiplyAsFloats(const ProductBlock& block) {
  constexpr int64_t kFilters = Native::kVectors * Width<Native::Vector>();
  for (int64_t f = 0; f < block.filters; f += kFilters) {
    for (int64_t row = 0; row < block.pixels; row += Native::kRows) {
      MultiplyAtMost(block.pixels - row, block, row, f);
    }
  }
}

// Computes row `r` before it is rounded. The compiler vectorises the loops.
void FinishFloats(const FinishedRows& rows, int64_t r, float* out) {
  const int64_t n = rows.filters;
  const float* const sums = rows.sums + r * kPanel;
  for (int64_t i = 0; i < n; ++i) out[i] = sums[i];
  if (rows.bias) {
    for (int64_t i = 0; i < n; ++i) out[i] += rows.bias[i];
  }
  if (rows.residual) {
    const BFloat16* const residual = rows.residual + r * rows.residual_pitch;
    for (int64_t i = 0; i < n; ++i) out[i] += ToFloat(residual[i]);
  }
  if (rows.activation == Activation::kNone) return;
  for (int64_t i = 0; i < n; ++i) out[i] = out[i] < 0.0f ? 0.0f : out[i];
  if (rows.activation == Activation::kRelu6) {
    for (int64_t i = 0; i < n; ++i) out[i] = out[i] > 6.0f ? 6.0f : out[i];
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

void FinishAnyRows(const FinishedRows& rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t first = r * rows.output_pitch;
    if (!rows.narrows) {
      IOS_DISPATCH(FinishFloats)
      (rows, r, static_cast<float*>(rows.output) + first);
      continue;
    }
    float values[kPanel];
    IOS_DISPATCH(FinishFloats)(rows, r, values);
    Narrow(values, rows.filters, static_cast<BFloat16*>(rows.output) + first);
  }
}

#ifdef __x86_64__

// Computes kRows rows of a block with AVX512_BF16.
template <int kRows, int kVectors>
IOS_AVX512_BF16 void MultiplyInVectors(const ProductBlock& block, int64_t row) {
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_setzero_ps();
  }
  const BFloat16* factors = block.factors;
  const int64_t tile_factors = block.depth * kTile;
  for (int64_t step = 0; step < block.steps; ++step, factors += tile_factors) {
    const BFloat16* const cells =
        block.cells + row * block.pitch + block.offsets[step];
    for (int64_t d = 0; d < block.depth; d += 2, factors += 2 * kTile) {
      __m512bh pairs[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        pairs[v] = (__m512bh)_mm512_loadu_si512(factors + v * tile_factors);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        int32_t pair;
        std::memcpy(&pair, cells + r * block.pitch + d, sizeof(pair));
        const __m512bh repeated = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] = _mm512_dpbf16_ps(sums[r][v], repeated, pairs[v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(block.sums + (row + r) * kPanel + 16 * v, sums[r][v]);
    }
  }
}

// The largest number of rows whose sums fit in the registers.
constexpr int kMostRows = 14;

template <int kVectors, int kRows = kMostRows>
void MultiplyRowsInVectors(const ProductBlock& block, int64_t row,
                           int64_t count) {
  if constexpr (kRows > 1) {
    if (count < kRows) {
      return MultiplyRowsInVectors<kVectors, kRows - 1>(block, row, count);
    }
  }
  MultiplyInVectors<kRows, kVectors>(block, row);
}

template <int kVectors>
void MultiplyWithVectors(const ProductBlock& block) {
  // All groups of rows have about the same size, because a small group has too
  // few independent sums to keep the processor busy.
  int64_t row = 0;
  for (int64_t left = CeilDiv(block.pixels, kMostRows); left > 0; --left) {
    const int64_t count = CeilDiv(block.pixels - row, left);
    MultiplyRowsInVectors<kVectors>(block, row, count);
    row += count;
  }
}

// The configuration of the registers of AMX, as the instruction reads it.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Registers 0 to 3 contain the sums: each has half of the 32 pixels and half of
// the 32 filters. Registers 4 and 5 contain cells, and registers 6 and 7
// contain factors.
IOS_AMX void Configure(int64_t pixels, int64_t depth) {
  TileConfiguration tiles;
  const int64_t first = std::min<int64_t>(pixels, 16);
  const int64_t second = std::max<int64_t>(pixels - 16, 1);
  const auto set = [&](int tile, int64_t rows, int64_t bytes) {
    tiles.rows[tile] = rows;
    tiles.row_bytes[tile] = bytes;
  };
  for (int i : {0, 1}) {
    set(i, first, 64);
    set(2 + i, second, 64);
    set(6 + i, depth / 2, 64);
  }
  set(4, first, 2 * depth);
  set(5, second, 2 * depth);
  // GCC does not know that the instruction reads the whole structure.
  asm volatile("" : : "r"(&tiles) : "memory");
  _tile_loadconfig(&tiles);
}

template <bool kTwoPixels, bool kTwoFilters>
IOS_AMX void MultiplyTiles(const ProductBlock& block) {
  _tile_zero(0);
  if (kTwoFilters) _tile_zero(1);
  if (kTwoPixels) _tile_zero(2);
  if (kTwoPixels && kTwoFilters) _tile_zero(3);
  const int64_t pitch = 2 * block.pitch;
  const BFloat16* factors = block.factors;
  const char* ahead = reinterpret_cast<const char*>(block.ahead);
  const int64_t tile_factors = block.depth * kTile;
  for (int64_t step = 0; step < block.steps; ++step) {
    for (int64_t line = 0; line < block.ahead_lines; ++line, ahead += 64) {
      __builtin_prefetch(ahead, /*rw=*/0, /*locality=*/2);
    }
    const BFloat16* const cells = block.cells + block.offsets[step];
    _tile_loadd(4, cells, pitch);
    _tile_loadd(6, factors, 4 * kTile);
    _tile_dpbf16ps(0, 4, 6);
    if (kTwoFilters) {
      _tile_loadd(7, factors + tile_factors, 4 * kTile);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (kTwoPixels) {
      _tile_loadd(5, cells + 16 * block.pitch, pitch);
      _tile_dpbf16ps(2, 5, 6);
      if (kTwoFilters) _tile_dpbf16ps(3, 5, 7);
    }
    factors += 2 * tile_factors;
  }
  float* const sums = block.sums;
  _tile_stored(0, sums, 4 * kPanel);
  if (kTwoFilters) _tile_stored(1, sums + 16, 4 * kPanel);
  if (kTwoPixels) {
    _tile_stored(2, sums + 16 * kPanel, 4 * kPanel);
    if (kTwoFilters) _tile_stored(3, sums + 16 * kPanel + 16, 4 * kPanel);
  }
}

IOS_AMX void ReleaseTiles() { _tile_release(); }

// Does the same as FinishAnyRows with AVX512_BF16, for the filters of a vector.
template <bool kNarrows>
IOS_AVX512_BF16 void FinishVectors(const FinishedRows& rows, int64_t filter) {
  typedef float V __attribute__((vector_size(64)));
  typedef uint32_t Bits __attribute__((vector_size(64)));
  typedef uint16_t Halves __attribute__((vector_size(32)));
  const int64_t n = std::min<int64_t>(rows.filters - filter, 16);
  const __mmask16 mask = static_cast<__mmask16>((1u << n) - 1);
  const bool is_relu = rows.activation != Activation::kNone;
  const bool is_relu6 = rows.activation == Activation::kRelu6;
  V bias = {};
  if (rows.bias) bias = _mm512_maskz_loadu_ps(mask, rows.bias + filter);
  const float* sums = rows.sums + filter;
  const BFloat16* residual = rows.residual ? rows.residual + filter : nullptr;
  auto* floats = static_cast<float*>(rows.output) + filter;
  auto* halves = static_cast<BFloat16*>(rows.output) + filter;
  for (int64_t r = 0; r < rows.count; ++r, sums += kPanel) {
    V x = (V)_mm512_loadu_ps(sums) + bias;
    if (rows.residual) {
      const Halves terms = (Halves)_mm256_maskz_loadu_epi16(mask, residual);
      x += (V)(__builtin_convertvector(terms, Bits) << 16);
      residual += rows.residual_pitch;
    }
    if (is_relu) x = x < 0.0f ? V{} : x;
    if (is_relu6) x = x > 6.0f ? V{} + 6.0f : x;
    if (kNarrows) {
      _mm256_mask_storeu_epi16(halves, mask, (__m256i)_mm512_cvtneps_pbh(x));
      halves += rows.output_pitch;
    } else {
      _mm512_mask_storeu_ps(floats, mask, x);
      floats += rows.output_pitch;
    }
  }
}

#endif  // __x86_64__

}  // namespace

BlockMultiplier::~BlockMultiplier() {
#ifdef __x86_64__
  if (pixels_ > 0) ReleaseTiles();
#endif
}

void BlockMultiplier::Multiply(const ProductBlock& block) {
#ifdef __x86_64__
  const bool two_filters = block.filters > 16;
  switch (BestBFloat16Products()) {
    case BFloat16Products::kTiles: {
      if (block.pixels != pixels_) {
        pixels_ = block.pixels;
        Configure(pixels_, depth_);
      }
      if (block.pixels > 16) {
        two_filters ? MultiplyTiles<true, true>(block)
                    : MultiplyTiles<true, false>(block);
      } else {
        two_filters ? MultiplyTiles<false, true>(block)
                    : MultiplyTiles<false, false>(block);
      }
      return;
    }
    case BFloat16Products::kVectors:
      return two_filters ? MultiplyWithVectors<2>(block)
                         : MultiplyWithVectors<1>(block);
    case BFloat16Products::kNone:
      break;
  }
#endif
  IOS_DISPATCH(MultiplyAsFloats)(block);
}

void FinishRows(const FinishedRows& rows) {
#ifdef __x86_64__
  if (BestBFloat16Products() != BFloat16Products::kNone) {
    for (int64_t filter = 0; filter < rows.filters; filter += 16) {
      rows.narrows ? FinishVectors<true>(rows, filter)
                   : FinishVectors<false>(rows, filter);
    }
    return;
  }
#endif
  FinishAnyRows(rows);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
