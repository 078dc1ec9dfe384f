// The one-dimensional transforms of the input and of the products in minimal
// filtering, for one instruction set. winograd_transforms.h lists the points.
//
// A source includes this file in the part that foreach_target.h repeats for
// each instruction set. So this file does not have an include guard.

namespace ios::cpu::IOS_TARGET {
namespace {

constexpr float kRootHalf = 0.70710678118654752f,
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

}  // namespace
}  // namespace ios::cpu::IOS_TARGET
