// The transforms of minimal filtering in one dimension: of the input, of the
// filter, and of their products.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_TRANSFORMS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_TRANSFORMS_H_

#include <cmath>
#include <cstdint>

#include "cc/engine/cpu/kernels/vectorized.h"

namespace ios::cpu {

// The points at which polynomials are evaluated, by the number of points:
//   4  0, 1, -1, infinity
//   6  0, sqrt(1/2), -sqrt(1/2), sqrt(2), -sqrt(2), infinity. With the
//      usual points 1, -1, 2 and -2, the largest error is five times as large.
//   8  0, 1, -1, 2, -2, 1/2, -1/2, infinity
// With one point, there is nothing to transform.
inline constexpr float kRootHalf = 0.70710678118654752f,
                       kRootTwo = 1.4142135623730950f;

template <int kPoints, typename V>
IOS_INLINE void TransformInput(const V* x, V* y, int step) {
  if constexpr (kPoints == 1) {
    y[0] = x[0];
  } else if constexpr (kPoints == 4) {
    y[0] = x[0] - x[2];
    y[step] = x[1] + x[2];
    y[2 * step] = x[2] - x[1];
    y[3 * step] = x[3] - x[1];
  } else if constexpr (kPoints == 6) {
    const V even = x[4] - 2.0f * x[2];
    const V odd = kRootHalf * (x[3] - 2.0f * x[1]);
    const V even2 = x[4] - 0.5f * x[2];
    const V odd2 = kRootTwo * (x[3] - 0.5f * x[1]);
    y[0] = x[0] - 2.5f * x[2] + x[4];
    y[step] = even + odd;
    y[2 * step] = even - odd;
    y[3 * step] = even2 + odd2;
    y[4 * step] = even2 - odd2;
    y[5 * step] = x[1] - 2.5f * x[3] + x[5];
  } else {
    static_assert(kPoints == 8);
    const V even = x[2] - 4.25f * x[4] + x[6];
    const V odd = x[1] - 4.25f * x[3] + x[5];
    const V even2 = x[6] + 0.25f * x[2] - 1.25f * x[4];
    const V odd2 = 0.5f * x[1] - 2.5f * x[3] + 2.0f * x[5];
    const V even3 = x[6] + 4.0f * x[2] - 5.0f * x[4];
    const V odd3 = 2.0f * x[1] - 2.5f * x[3] + 0.5f * x[5];
    y[0] = x[0] - x[6] + 5.25f * (x[4] - x[2]);
    y[step] = even + odd;
    y[2 * step] = even - odd;
    y[3 * step] = even2 + odd2;
    y[4 * step] = even2 - odd2;
    y[5 * step] = even3 + odd3;
    y[6 * step] = even3 - odd3;
    y[7 * step] = x[7] - x[1] + 5.25f * (x[3] - x[5]);
  }
}

template <int kPoints, int kSide, typename V>
IOS_INLINE void TransformOutput(const V* x, V* y) {
  if constexpr (kPoints == 1) {
    y[0] = x[0];
  } else if constexpr (kPoints == 4) {
    y[0] = x[0] + (x[1] + x[2]);
    y[1] = (x[1] - x[2]) + x[3];
  } else if constexpr (kPoints == 6) {
    const V sum = x[1] + x[2], difference = kRootHalf * (x[1] - x[2]);
    const V sum2 = x[3] + x[4], difference2 = kRootTwo * (x[3] - x[4]);
    y[0] = x[0] + (sum + sum2);
    y[1] = difference + difference2;
    if constexpr (kSide == 2) {
      y[1] += x[5];
    } else {
      y[2] = 0.5f * sum + 2.0f * sum2;
      y[3] = (0.5f * difference + 2.0f * difference2) + x[5];
    }
  } else {
    static_assert(kPoints == 8 && kSide == 2);
    y[0] = x[0] + ((x[1] + x[2]) + (x[3] + x[4])) + (x[5] + x[6]);
    y[1] =
        ((x[1] - x[2]) + 2.0f * (x[3] - x[4])) + (0.5f * (x[5] - x[6]) + x[7]);
  }
}

// Returns the coefficient of window cell `cell` in the filter's value at a
// point.
inline double FilterFactor(int64_t points, int64_t window, int64_t point,
                           int64_t cell) {
  static const double kAt[3][7] = {
      {0, 1, -1},
      {0, std::sqrt(0.5), -std::sqrt(0.5), std::sqrt(2.0), -std::sqrt(2.0)},
      {0, 1, -1, 2, -2, 0.5, -0.5}};
  static constexpr double kFactors[3][7] = {
      {1, 0.5, 0.5},
      {1, -2.0 / 3, -2.0 / 3, 1.0 / 6, 1.0 / 6},
      {1, -2.0 / 9, -2.0 / 9, 1.0 / 90, 1.0 / 90, 32.0 / 45, 32.0 / 45},
  };
  if (points == 1) return 1;
  if (point == points - 1) return cell == window - 1;  // infinity
  const int64_t row = points / 2 - 2;
  return kFactors[row][point] * std::pow(kAt[row][point], cell);
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_TRANSFORMS_H_
