// FloatRow: how kernels compute rows of float32 or bfloat16 tensors in float32.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_FLOAT_ROW_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_FLOAT_ROW_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cc/engine/cpu/kernels/bfloat16.h"
#include "cc/engine/cpu/kernels/views.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {

// Gives a kernel a row of an operand in float32, and gets a row of the result
// from it. One object may do both, for kernels that can compute in place.
// Elements of type float stay where they are.
template <typename T>
class FloatRow {
 public:
  static constexpr int64_t kMost = kGrainFloats;  // the length of a row

  const float* Read(const float* from, int64_t) { return from; }
  // The kernel writes the row to the address that Begin() returns. Finish()
  // then puts the row into `to`.
  float* Begin(float* to) { return to; }
  void Finish(int64_t, float*) {}
};

// `Memory` holds the floats of a row.
template <typename Memory>
class ConvertedRow {
 public:
  ConvertedRow() = default;
  explicit ConvertedRow(int64_t most) : floats_(most) {}

  const float* Read(const BFloat16* from, int64_t n) {
    Widen(from, n, floats_.data());
    return floats_.data();
  }
  float* Begin(BFloat16*) { return floats_.data(); }
  void Finish(int64_t n, BFloat16* to) { Narrow(floats_.data(), n, to); }

 private:
  // Loading and storing a register would take longer if it crossed the border
  // of a cache line.
  alignas(64) Memory floats_;
};

// The rows of several operands fit in half of a small first-level cache.
template <>
class FloatRow<BFloat16> : public ConvertedRow<std::array<float, 1024>> {
 public:
  static constexpr int64_t kMost = 1024;
};

// A FloatRow that may have more than kMost elements. The constructor gets the
// largest length.
template <typename T>
class LongFloatRow : public FloatRow<T> {
 public:
  explicit LongFloatRow(int64_t) {}
};
template <>
class LongFloatRow<BFloat16> : public ConvertedRow<std::vector<float>> {
 public:
  using ConvertedRow::ConvertedRow;
};

// Calls row(pixel, channel, elements) for parts of a tensor of `pixels` x
// `channels`. A part has at most FloatRow<T>::kMost elements, so its sums stay
// in a core's cache from one term to the next. If all views are dense, a part
// is a contiguous range: `pixel` is 0, and `channel` is the offset of the
// range. Otherwise a part lies within one pixel.
template <typename T, typename Row>
void ForRows(int64_t pixels, int64_t channels, bool dense, Row&& row) {
  if (dense) {
    channels *= pixels;
    pixels = 1;
  }
  constexpr int64_t kMost = FloatRow<T>::kMost;
  const auto parts = [&](int64_t pixel, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kMost) {
      row(pixel, i, std::min(kMost, end - i));
    }
  };
  if (dense) {
    ParallelFor(channels, kGrainFloats,
                [&](int64_t begin, int64_t end) { parts(0, begin, end); });
  } else {
    ParallelFor(pixels, std::max<int64_t>(1, kGrainFloats / channels),
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) parts(p, 0, channels);
                });
  }
}

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_FLOAT_ROW_H_
