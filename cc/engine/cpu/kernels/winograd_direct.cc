#include "cc/engine/cpu/kernels/winograd_direct.h"

#include <algorithm>

namespace ios::cpu {

void ComputeDirectly(const WinogradPlan& plan,
                     const WinogradArguments& arguments, const Place& place,
                     int64_t first_filter, int64_t count) {
  const int64_t bottom = std::min(place.y + plan.side[0], plan.out_height);
  const int64_t right = std::min(place.x + plan.side[1], plan.out_width);
  for (int64_t y = place.y; y < bottom; ++y) {
    for (int64_t x = place.x; x < right; ++x) {
      const int64_t pixel =
          (place.image * plan.out_height + y) * plan.out_width + x;
      float* out = arguments.output + pixel * arguments.output_pitch;
      // Products of finite numbers that float32 does not hold may add up to one
      // that it does, and not to NaN.
      double sums[kBlock] = {};
      for (int64_t r = 0; r < plan.window[0]; ++r) {
        for (int64_t k = 0; k < plan.window[1]; ++k) {
          const int64_t in_y = y - plan.top + r, in_x = x - plan.left + k;
          if (in_y < 0 || in_y >= plan.height) continue;
          if (in_x < 0 || in_x >= plan.width) continue;
          const float* in =
              arguments.input +
              ((place.image * plan.height + in_y) * plan.width + in_x) *
                  arguments.input_pitch;
          const int64_t cell = r * plan.window[1] + k;
          const float* filter = arguments.plain +
                                cell * plan.channels * plan.filters +
                                first_filter;
          for (int64_t c = 0; c < plan.channels; ++c) {
            for (int64_t f = 0; f < count; ++f) {
              sums[f] +=
                  static_cast<double>(in[c]) * filter[c * plan.filters + f];
            }
          }
        }
      }
      for (int64_t f = 0; f < count; ++f) {
        float v = static_cast<float>(sums[f]);
        if (arguments.bias) v += arguments.bias[first_filter + f];
        if (arguments.residual) {
          v += arguments.residual[pixel * arguments.residual_pitch +
                                  first_filter + f];
        }
        if (arguments.activation != Activation::kNone) v = v < 0.0f ? 0.0f : v;
        if (arguments.activation == Activation::kRelu6) v = v > 6.0f ? 6.0f : v;
        out[first_filter + f] = v;
      }
    }
  }
}

}  // namespace ios::cpu
