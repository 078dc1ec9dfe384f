// The one-dimensional transform of the filter in minimal filtering.
// winograd_transforms-inl.h transforms the input and the products.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_TRANSFORMS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_WINOGRAD_TRANSFORMS_H_

#include <cmath>
#include <cstdint>

namespace ios::cpu {

// The points at which polynomials are evaluated, by the number of points:
//   4  0, 1, -1, infinity
//   6  0, sqrt(1/2), -sqrt(1/2), sqrt(2), -sqrt(2), infinity. With the
//      usual points 1, -1, 2 and -2, the largest error is five times as large.
//   8  0, 1, -1, 2, -2, 1/2, -1/2, infinity
// With one point, there is nothing to transform.
//
// Returns the factor of window cell `cell` in the value of the filter's
// polynomial at point number `point`.
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
