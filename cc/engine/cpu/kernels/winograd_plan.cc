// Computations that are done once for a convolution: planning its units, and
// transforming its filter.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cc/engine/cpu/kernels/winograd.h"
#include "cc/engine/cpu/kernels/winograd_transforms.h"
#include "cc/engine/cpu/kernels/winograd_units.h"

namespace ios::cpu {

WinogradPlan::WinogradPlan(const Operator& op, const Shape& input,
                           const Shape& output, int threads)
    : window(op.kernel),
      images(input[0]),
      height(input[1]),
      width(input[2]),
      channels(input[3]),
      out_height(output[1]),
      out_width(output[2]),
      filters(op.filters) {
  for (int d = 0; d < 2; ++d) {
    const int64_t cells = op.algorithm == Algorithm::kWinograd4 ? 4 : 2;
    side[d] = window[d] == 1 ? 1 : cells;
    points[d] = side[d] + window[d] - 1;
  }
  tiles_high = CeilDiv(out_height, side[0]);
  tiles_wide = CeilDiv(out_width, side[1]);
  const std::array<int64_t, 4> pad = ExplicitPadding(op, input);
  top = pad[0];
  left = pad[2];
  // A strip is so short that its planes fit into kBudget floats, half of a
  // small core's L2 cache. But a strip has at least kLeast tiles, so that
  // computing its products takes longer than reading the filters.
  constexpr int64_t kBudget = 64 * 1024, kLeast = 28;
  const int64_t per_tile = planes() * (channels + kBlock);
  const int64_t longest =
      CeilDiv(std::max(kBudget / per_tile, kLeast), MaxRows()) * MaxRows();
  strips = CeilDiv(tiles(), longest);
  if (strips > threads) strips = CeilDiv(strips, threads) * threads;
  strips = std::min(strips, tiles());
  if (strips == 0) return;  // an image without cells
  const int64_t blocks = CeilDiv(filters, kBlock);
  parts = std::min<int64_t>(CeilDiv(threads, strips), blocks);
}

int64_t WinogradPlan::filter_floats() const {
  return CeilDiv(filters, kGroup) * planes() * channels * kGroup;
}

int64_t WinogradPlan::scratch_floats() const {
  if (units() == 0) return 0;
  const int64_t count = CeilDiv(tiles(), strips);
  const int64_t zeros = CeilDiv(channels, kGroup) * kGroup;
  // Every block of tiles gets as much memory as the largest block needs.
  const int64_t rows = count + MaxRows();
  return zeros + count +
         planes() * (OddLines(rows * zeros) + OddLines(count * kBlock));
}

uint32_t CommonCells(const WinogradPlan& plan, const float* filter) {
  const int64_t cells = plan.window[0] * plan.window[1];
  std::vector<uint32_t> of_filters(plan.filters);
  for (int64_t cell = 0; cell < cells; ++cell) {
    const uint32_t bit = uint32_t{1} << cell;
    int64_t found = 0;
    for (int64_t c = 0; c < plan.channels && found < plan.filters; ++c) {
      const float* factors = filter + (cell * plan.channels + c) * plan.filters;
      for (int64_t f = 0; f < plan.filters; ++f) {
        // Denormal factors count as zero, because the engine's threads treat
        // them as zero.
        if (std::abs(factors[f]) < std::numeric_limits<float>::min()) continue;
        found += (of_filters[f] & bit) == 0;
        of_filters[f] |= bit;
      }
    }
  }
  uint32_t common = (uint32_t{1} << cells) - 1;
  for (uint32_t of_one : of_filters) {
    if (of_one != 0) common &= of_one;
  }
  return common;
}

void TransformFilter(const WinogradPlan& plan, const float* filter, float* to) {
  std::memset(to, 0, plan.filter_floats() * sizeof(float));
  const auto factors = [&](int d) {
    std::vector<double> of_points;
    for (int64_t p = 0; p < plan.points[d]; ++p) {
      for (int64_t cell = 0; cell < plan.window[d]; ++cell) {
        of_points.push_back(
            FilterFactor(plan.points[d], plan.window[d], p, cell));
      }
    }
    return of_points;
  };
  const std::vector<double> high = factors(0), wide = factors(1);
  const auto [kh, kw] = plan.window;
  std::vector<double> rows(kh * plan.points[1]);
  for (int64_t c = 0; c < plan.channels; ++c) {
    for (int64_t f = 0; f < plan.filters; ++f) {
      for (int64_t r = 0; r < kh; ++r) {
        for (int64_t p = 0; p < plan.points[1]; ++p) {
          double& sum = rows[r * plan.points[1] + p] = 0;
          for (int64_t k = 0; k < kw; ++k) {
            sum +=
                wide[p * kw + k] *
                filter[((r * kw + k) * plan.channels + c) * plan.filters + f];
          }
        }
      }
      float* out = to +
                   (f / kGroup * plan.planes() * plan.channels + c) * kGroup +
                   f % kGroup;
      for (int64_t p = 0; p < plan.points[0]; ++p) {
        for (int64_t q = 0; q < plan.points[1]; ++q) {
          double sum = 0;
          for (int64_t r = 0; r < kh; ++r) {
            sum += high[p * kh + r] * rows[r * plan.points[1] + q];
          }
          *out = static_cast<float>(sum);
          out += plan.channels * kGroup;
        }
      }
    }
  }
}

}  // namespace ios::cpu
