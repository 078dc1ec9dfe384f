#include "cc/engine/cpu/kernels/winograd_direct.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/kernels/registers.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/winograd_direct.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/registers-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// The number of outputs of a tile that are computed together.
constexpr int kAtOnce = 4;

// A vector of as many doubles as V has floats.
template <typename V>
struct Wide {
  typedef double Vector __attribute__((vector_size(2 * sizeof(V))));
};

// The factors of one cell of the window. `first` points to the factor of the
// first channel and first filter.
struct CellFactors {
  const float* first;
  const float* end;  // of all factors
  int64_t filters;
  int64_t channels;
};

// Adds, for kCount outputs, the products of one cell of their windows. in[i] is
// the pixel of output i. A vector of filters may reach beyond the last filter;
// its last sums are then not used.
template <typename V, int kCount, int kVectors, typename Sum>
IOS_INLINE void AddProducts(const float* const* in, const CellFactors& cell,
                            Sum (*sums)[kVectors]) {
  using Scalar = std::decay_t<decltype(Sum()[0])>;
  Sum own[kCount][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) own[i][v] = sums[i][v];
  }
  const float* factor = cell.first;
  for (int64_t c = 0; c < cell.channels; ++c, factor += cell.filters) {
    Sum factors[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const float* at = factor + v * Width<V>();
      factors[v] = __builtin_convertvector(Load<V>(at, cell.end - at), Sum);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      const Scalar x = in[i][c];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) own[i][v] += x * factors[v];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = own[i][v];
  }
}

// Some outputs of a tile, and their filters.
struct Part {
  int64_t first, count;  // outputs
  int64_t y[kAtOnce], x[kAtOnce];
  int64_t pixel[kAtOnce];
  int64_t filter, filters;
};

template <typename V, int kVectors, typename Sum>
IOS_INLINE void AddCells(const WinogradPlan& plan,
                         const WinogradArguments& arguments, const Place& place,
                         const Part& part, Sum (*sums)[kVectors]) {
  CellFactors cell;
  cell.filters = plan.filters;
  cell.channels = plan.channels;
  const int64_t floats = plan.channels * plan.filters;
  cell.end = arguments.plain + plan.window[0] * plan.window[1] * floats;
  cell.first = arguments.plain + part.filter;
  for (int64_t r = 0; r < plan.window[0]; ++r) {
    for (int64_t k = 0; k < plan.window[1]; ++k, cell.first += floats) {
      // Padding is skipped, because 0 times an infinite factor would be NaN.
      const float* in[kAtOnce];
      int outputs[kAtOnce], inside = 0;
      for (int i = 0; i < part.count; ++i) {
        const int64_t y = part.y[i] - plan.top + r;
        const int64_t x = part.x[i] - plan.left + k;
        if (y < 0 || y >= plan.height || x < 0 || x >= plan.width) continue;
        outputs[inside] = i;
        in[inside++] = arguments.input +
                       ((place.image * plan.height + y) * plan.width + x) *
                           arguments.input_pitch;
      }
      if (inside == kAtOnce) {
        AddProducts<V, kAtOnce, kVectors>(in, cell, sums);
      } else if (inside == 2 && part.count == 2) {
        AddProducts<V, 2, kVectors>(in, cell, sums);
      } else {
        for (int i = 0; i < inside; ++i) {
          AddProducts<V, 1, kVectors>(in + i, cell, sums + outputs[i]);
        }
      }
    }
  }
}

// Computes the outputs `part` of a tile. Returns true if all results are
// finite.
template <typename V, int kVectors, typename Sum>
IOS_INLINE bool ComputePart(const WinogradPlan& plan,
                            const WinogradArguments& arguments,
                            const Place& place, const Part& part) {
  Sum sums[kAtOnce][kVectors] = {};
  AddCells<V, kVectors>(plan, arguments, place, part, sums);
  V zeros{};  // NaN if a result is not finite
  for (int i = 0; i < part.count; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t f = part.filter + v * Width<V>();
      const int64_t left = part.filters - v * Width<V>();
      V value = __builtin_convertvector(sums[i][v], V);
      if (arguments.bias) value += Load<V>(arguments.bias + f, left);
      zeros += value * 0.0f;
      if (arguments.residual) {
        value += Load<V>(
            arguments.residual + part.pixel[i] * arguments.residual_pitch + f,
            left);
      }
      ActivateInRegisters(arguments.activation, &value);
      Store(value, left,
            arguments.output + part.pixel[i] * arguments.output_pitch + f);
    }
  }
  float sum = 0.0f;
  for (int64_t e = 0; e < Width<V>(); ++e) sum += zeros[e];
  return sum == 0.0f;
}

void ComputeTile(const WinogradPlan& plan, const WinogradArguments& arguments,
                 const Place& place, int64_t first_filter, int64_t count) {
  using V = Native::Vector;
  using Doubles = typename Wide<V>::Vector;
  Part part;
  for (part.first = 0; part.first < place.high * place.wide;
       part.first += kAtOnce) {
    part.count =
        std::min<int64_t>(kAtOnce, place.high * place.wide - part.first);
    for (int i = 0; i < part.count; ++i) {
      part.y[i] = place.y + (part.first + i) / place.wide;
      part.x[i] = place.x + (part.first + i) % place.wide;
      part.pixel[i] =
          (place.image * plan.out_height + part.y[i]) * plan.out_width +
          part.x[i];
    }
    for (int64_t f = 0; f < count;) {
      part.filter = first_filter + f;
      part.filters = count - f;
      const bool two = part.filters > Width<V>();
      const bool finite =
          two ? ComputePart<V, 2, V>(plan, arguments, place, part)
              : ComputePart<V, 1, V>(plan, arguments, place, part);
      // The sum is computed again in float64, because it may be finite even if
      // some products are too large for float32.
      for (int v = 0; !finite && v <= two; ++v) {
        ComputePart<V, 1, Doubles>(plan, arguments, place, part);
        part.filter += Width<V>();
        part.filters -= Width<V>();
      }
      f += (1 + two) * Width<V>();
    }
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

void ComputeDirectly(const WinogradPlan& plan,
                     const WinogradArguments& arguments, const Place& place,
                     int64_t first_filter, int64_t count) {
  IOS_DISPATCH(ComputeTile)(plan, arguments, place, first_filter, count);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
