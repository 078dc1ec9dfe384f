#include "cc/engine/cpu/kernels/normalization.h"

#include <algorithm>
#include <cmath>

#include "cc/engine/cpu/kernels/vectorized.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

// Floats worth handing to another thread.
constexpr int64_t kGrainFloats = 4096;
// Sums are made of so many partial ones, which vectorise.
constexpr int kPartial = 16;

float Total(const float* partial) {
  float sum = 0.0f;
  for (int i = 0; i < kPartial; ++i) sum += partial[i];
  return sum;
}

// The sum of many rows: of millions of numbers float32 would lose digits.
class LongSum {
 public:
  // To add the next `n` numbers to.
  float* Partial(int64_t n) {
    constexpr int64_t kMost = 512;
    if ((added_ += n) > kMost) {
      Total();
      added_ = n;
    }
    return partial_;
  }
  double Total() {
    total_ += ios::cpu::Total(partial_);
    std::fill_n(partial_, kPartial, 0.0f);
    return total_;
  }

 private:
  float partial_[kPartial] = {};
  int64_t added_ = 0;
  double total_ = 0.0;
};

IOS_VECTORIZED void AddTo(const float* x, int64_t n, float* partial) {
  int64_t i = 0;
  for (; i + kPartial <= n; i += kPartial) {
    for (int k = 0; k < kPartial; ++k) partial[k] += x[i + k];
  }
  for (; i < n; ++i) partial[0] += x[i];
}

IOS_VECTORIZED void AddSquaresTo(const float* x, float mean, int64_t n,
                                 float* partial) {
  int64_t i = 0;
  for (; i + kPartial <= n; i += kPartial) {
    for (int k = 0; k < kPartial; ++k) {
      const float difference = x[i + k] - mean;
      partial[k] += difference * difference;
    }
  }
  for (; i < n; ++i) partial[0] += (x[i] - mean) * (x[i] - mean);
}

IOS_VECTORIZED void NormalizeRow(const float* x, float mean, float factor,
                                 const float* scale, const float* shift,
                                 int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = (x[i] - mean) * factor * scale[i] + shift[i];
  }
}

// Keeps a NaN, as TensorFlow's maximum does.
float Maximum(const float* x, int64_t n) {
  float result = x[0];
  for (int64_t i = 1; i < n; ++i) {
    result = x[i] > result || x[i] != x[i] ? x[i] : result;
    if (result != result) return result;
  }
  return result;
}

int64_t Grain(int64_t floats) {
  return std::max<int64_t>(1, kGrainFloats / std::max<int64_t>(1, floats));
}

}  // namespace

void ReduceChannels(const Source& x, PoolKind kind, const Target& to) {
  const int64_t channels = x.view.channels();
  ParallelFor(to.view.pixels(), Grain(channels),
              [&](int64_t begin, int64_t end) {
                for (int64_t p = begin; p < end; ++p) {
                  const float* row = x.data + p * x.view.pitch;
                  float& out = to.data[p * to.view.pitch];
                  if (kind == PoolKind::kMax) {
                    out = Maximum(row, channels);
                    continue;
                  }
                  float partial[kPartial] = {};
                  AddTo(row, channels, partial);
                  out = Total(partial);
                  if (kind == PoolKind::kAvg) out /= channels;
                }
              });
}

void Normalize(const Source& x, bool whole_images, int64_t groups,
               float epsilon, const float* scale, const float* shift,
               const Target& to) {
  const int64_t channels = x.view.channels() / groups;
  const int64_t images = x.view.shape[0];
  const int64_t all_pixels = to.view.pixels();
  // A part of the work has `pixels` rows of `channels` with one mean.
  const int64_t pixels =
      whole_images ? all_pixels / std::max<int64_t>(1, images) : 1;
  const int64_t parts = whole_images ? images * groups : all_pixels * groups;
  ParallelFor(parts, Grain(pixels * channels), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t first = part / groups * pixels;
      const int64_t channel = part % groups * channels;
      const float* in = x.data + first * x.view.pitch + channel;
      float* out = to.data + first * to.view.pitch + channel;
      const double count = static_cast<double>(pixels * channels);
      LongSum sum, squares;
      for (int64_t p = 0; p < pixels; ++p) {
        AddTo(in + p * x.view.pitch, channels, sum.Partial(channels));
      }
      const float mean = sum.Total() / count;
      for (int64_t p = 0; p < pixels; ++p) {
        AddSquaresTo(in + p * x.view.pitch, mean, channels,
                     squares.Partial(channels));
      }
      const float factor = 1.0 / std::sqrt(squares.Total() / count + epsilon);
      for (int64_t p = 0; p < pixels; ++p) {
        NormalizeRow(in + p * x.view.pitch, mean, factor, scale + channel,
                     shift + channel, channels, out + p * to.view.pitch);
      }
    }
  });
}

void ShuffleChannels(const Source& x, int64_t groups, const Target& to) {
  const int64_t channels = to.view.channels(), each = channels / groups;
  ParallelFor(to.view.pixels(), Grain(channels),
              [&](int64_t begin, int64_t end) {
                for (int64_t p = begin; p < end; ++p) {
                  const float* in = x.data + p * x.view.pitch;
                  float* out = to.data + p * to.view.pitch;
                  for (int64_t g = 0; g < groups; ++g) {
                    for (int64_t j = 0; j < each; ++j) {
                      out[j * groups + g] = in[g * each + j];
                    }
                  }
                }
              });
}

}  // namespace ios::cpu
