#include "cc/engine/cpu/kernels/normalization.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/float_row.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/normalization.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// A sum is computed as this many partial sums, so that the compiler can
// vectorise the loop.
constexpr int kPartial = 16;

float Total(const float* partial) {
  float sum = 0.0f;
  for (int i = 0; i < kPartial; ++i) sum += partial[i];
  return sum;
}

float Sum(const float* x, int64_t n) {
  float partial[kPartial] = {};
  int64_t i = 0;
  for (; i + kPartial <= n; i += kPartial) {
    for (int k = 0; k < kPartial; ++k) partial[k] += x[i + k];
  }
  for (; i < n; ++i) partial[0] += x[i];
  return Total(partial);
}

float SumOfSquares(const float* x, float mean, int64_t n) {
  float partial[kPartial] = {};
  int64_t i = 0;
  for (; i + kPartial <= n; i += kPartial) {
    for (int k = 0; k < kPartial; ++k) {
      const float difference = x[i + k] - mean;
      partial[k] += difference * difference;
    }
  }
  for (; i < n; ++i) partial[0] += (x[i] - mean) * (x[i] - mean);
  return Total(partial);
}

void NormalizeRow(const float* x, float mean, float factor, const float* scale,
                  const float* shift, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = (x[i] - mean) * factor * scale[i] + shift[i];
  }
}

// Adds all rows of x to `sums`: sums[c] += x[c].
template <typename T>
void SumRows(const T* x, int64_t pitch, int64_t rows, int64_t n,
             float* __restrict sums) {
  for (int64_t row = 0; row < rows; ++row, x += pitch) {
    for (int64_t c = 0; c < n; ++c) sums[c] += ToFloat(x[c]);
  }
}

template <typename T>
void SumSquaresOfRows(const T* x, int64_t pitch, int64_t rows, int64_t n,
                      const float* __restrict means, float* __restrict sums) {
  for (int64_t row = 0; row < rows; ++row, x += pitch) {
    for (int64_t c = 0; c < n; ++c) {
      const float difference = ToFloat(x[c]) - means[c];
      sums[c] += difference * difference;
    }
  }
}

template <typename T>
void NormalizeRows(const T* x, int64_t pitch, int64_t rows, int64_t n,
                   const float* __restrict means,
                   const float* __restrict factors,
                   const float* __restrict shifts, T* out, int64_t out_pitch) {
  for (int64_t row = 0; row < rows; ++row, x += pitch, out += out_pitch) {
    for (int64_t c = 0; c < n; ++c) {
      Put((ToFloat(x[c]) - means[c]) * factors[c] + shifts[c], out + c);
    }
  }
}

// Subtracts the largest element of each row.
void SubtractLargest(const float* x, int64_t pitch, int64_t rows, int64_t n,
                     float* out, int64_t out_pitch) {
  for (int64_t row = 0; row < rows; ++row, x += pitch, out += out_pitch) {
    float largest[kPartial];
    std::fill(largest, largest + kPartial, -INFINITY);
    int64_t i = 0;
    for (; i + kPartial <= n; i += kPartial) {
      for (int k = 0; k < kPartial; ++k) {
        largest[k] = x[i + k] > largest[k] ? x[i + k] : largest[k];
      }
    }
    for (; i < n; ++i) largest[0] = x[i] > largest[0] ? x[i] : largest[0];
    for (int k = 1; k < kPartial; ++k) {
      largest[0] = largest[k] > largest[0] ? largest[k] : largest[0];
    }
    for (i = 0; i < n; ++i) out[i] = x[i] - largest[0];
  }
}

void DivideBySum(float* x, int64_t pitch, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, x += pitch) {
    const float factor = 1.0f / Sum(x, n);
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

// Returns the largest number, or NaN if a number is NaN, as TensorFlow does.
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

template <typename T>
void ReduceChannels(const SourceOf<T>& x, PoolKind kind,
                    const TargetOf<T>& to) {
  const int64_t channels = x.view.channels();
  ParallelFor(to.view.pixels(), Grain(channels),
              [&](int64_t begin, int64_t end) {
                LongFloatRow<T> pixel(channels);
                for (int64_t p = begin; p < end; ++p) {
                  const float* row = pixel.Read(At(x, p, 0), channels);
                  float result = kind == PoolKind::kMax
                                     ? Maximum(row, channels)
                                     : IOS_DISPATCH(Sum)(row, channels);
                  if (kind == PoolKind::kAvg) result /= channels;
                  Narrow(&result, 1, At(to, p, 0));
                }
              });
}

template <typename T>
void Softmax(const SourceOf<T>& x, const TargetOf<T>& to) {
  // If a row contains NaN, or if its largest element is not finite, all results
  // of the row are NaN, because the differences or their sum are NaN.
  // The number of floats of a dense output that are computed together.
  constexpr int64_t kAtOnce = 4096;
  const int64_t n = x.view.channels();
  const bool dense =
      to.view.dense() && (x.view.dense() || std::is_same_v<T, float>);
  const int64_t most = dense && n > 0 ? std::max(kAtOnce / n, int64_t{1}) : 1;
  ParallelFor(to.view.pixels(), Grain(n), [&](int64_t begin, int64_t end) {
    LongFloatRow<T> row(std::min(most, end - begin) * n);
    for (int64_t p = begin; p < end; p += most) {
      const int64_t rows = std::min(most, end - p);
      float* const out = row.Begin(At(to, p, 0));
      IOS_DISPATCH(SubtractLargest)
      (row.Read(At(x, p, 0), rows * n), x.view.pitch, rows, n, out, n);
      ActivateRow(out, rows * n, Activation::kExp, out);
      IOS_DISPATCH(DivideBySum)(out, n, rows, n);
      row.Finish(rows * n, At(to, p, 0));
    }
  });
}

template <typename T>
void NormalizePixels(const SourceOf<T>& x, int64_t groups,
                     const Normalization& normalization,
                     const TargetOf<T>& to) {
  const int64_t n = x.view.channels() / groups;
  const int64_t parts = to.view.pixels() * groups;
  ParallelFor(parts, Grain(n), [&](int64_t begin, int64_t end) {
    LongFloatRow<T> row(n), result(n);
    for (int64_t part = begin; part < end; ++part) {
      const int64_t pixel = part / groups, c = part % groups * n;
      const float* in = row.Read(At(x, pixel, c), n);
      T* const out = At(to, pixel, c);
      const float mean = IOS_DISPATCH(Sum)(in, n) / n;
      const float variance = IOS_DISPATCH(SumOfSquares)(in, mean, n) / n;
      IOS_DISPATCH(NormalizeRow)
      (in, mean, 1.0 / std::sqrt(variance + normalization.epsilon),
       normalization.scale + c, normalization.shift + c, n, result.Begin(out));
      result.Finish(n, out);
    }
  });
}

ImageNorm::ImageNorm(const TensorView& x, const TensorView& to, int64_t groups)
    : channels_(x.channels()), groups_(groups) {
  const int64_t images = std::max<int64_t>(1, x.shape[0]);
  pixels_ = x.pixels() / images;
  if (x.dense() && to.dense() && channels_ > 0) {
    // With few channels, a row consists of several pixels, because a row of one
    // pixel would leave most of a vector empty.
    while (repeat_ * channels_ < 32 && pixels_ % (2 * repeat_) == 0 &&
           pixels_ > 0) {
      repeat_ *= 2;
    }
  }
  chunks_ = (pixels_ / repeat_ + kChunkRows - 1) / kChunkRows;
  const int64_t row = repeat_ * channels_;
  sums_ = scratch_.Take(chunks_ * row);
  means_ = scratch_.Take(row);
  factors_ = scratch_.Take(row);
  shifts_ = scratch_.Take(row);
}

template <typename Function>
void ImageNorm::ForChunks(const Function& function) const {
  const int64_t rows = pixels_ / repeat_;
  ParallelFor(chunks_, 1, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kChunkRows;
      function(chunk, first, std::min(kChunkRows, rows - first));
    }
  });
}

double ImageNorm::MeanOf(const float* sums, int64_t group) const {
  const int64_t n = repeat_ * channels_, each = channels_ / groups_;
  // The sums of chunks are added in float64, because a float32 sum of millions
  // of numbers would lose digits.
  double total = 0.0;
  for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
    for (int64_t r = 0; r < repeat_; ++r) {
      const float* const row = sums + chunk * n + r * channels_ + group * each;
      for (int64_t c = 0; c < each; ++c) total += row[c];
    }
  }
  return total / static_cast<double>(pixels_ * each);
}

template <typename Function>
void ImageNorm::Fill(float* row, int64_t group, const Function& value) const {
  const int64_t each = channels_ / groups_;
  for (int64_t r = 0; r < repeat_; ++r) {
    for (int64_t c = group * each; c < (group + 1) * each; ++c) {
      row[r * channels_ + c] = value(c);
    }
  }
}

template <typename T>
void ImageNorm::Run(const SourceOf<T>& x, const Normalization& normalization,
                    const TargetOf<T>& to, float* scratch) const {
  const int64_t n = repeat_ * channels_;
  const int64_t pitch = repeat_ * x.view.pitch;
  const int64_t out_pitch = repeat_ * to.view.pitch;
  float* const sums = scratch + sums_;
  float* const means = scratch + means_;
  float* const factors = scratch + factors_;
  float* const shifts = scratch + shifts_;
  for (int64_t i = 0; i < n; ++i) {
    shifts[i] = normalization.shift[i % channels_];
  }
  for (int64_t image = 0; image < x.view.shape[0]; ++image) {
    const T* const in = x.data + image * pixels_ * x.view.pitch;
    T* const out = to.data + image * pixels_ * to.view.pitch;
    ForChunks([&](int64_t chunk, int64_t first, int64_t count) {
      std::fill_n(sums + chunk * n, n, 0.0f);
      IOS_DISPATCH(SumRows<T>)
      (in + first * pitch, pitch, count, n, sums + chunk * n);
    });
    for (int64_t group = 0; group < groups_; ++group) {
      const float mean = MeanOf(sums, group);
      Fill(means, group, [&](int64_t) { return mean; });
    }
    ForChunks([&](int64_t chunk, int64_t first, int64_t count) {
      std::fill_n(sums + chunk * n, n, 0.0f);
      IOS_DISPATCH(SumSquaresOfRows<T>)
      (in + first * pitch, pitch, count, n, means, sums + chunk * n);
    });
    for (int64_t group = 0; group < groups_; ++group) {
      const double factor =
          1.0 / std::sqrt(MeanOf(sums, group) + normalization.epsilon);
      Fill(factors, group, [&](int64_t c) {
        return static_cast<float>(factor * normalization.scale[c]);
      });
    }
    ForChunks([&](int64_t, int64_t first, int64_t count) {
      IOS_DISPATCH(NormalizeRows<T>)
      (in + first * pitch, pitch, count, n, means, factors, shifts,
       out + first * out_pitch, out_pitch);
    });
  }
}

template <typename T>
void ShuffleChannels(const SourceOf<T>& x, int64_t groups,
                     const TargetOf<T>& to) {
  const int64_t channels = to.view.channels(), each = channels / groups;
  ParallelFor(to.view.pixels(), Grain(channels),
              [&](int64_t begin, int64_t end) {
                for (int64_t p = begin; p < end; ++p) {
                  const T* in = At(x, p, 0);
                  T* out = At(to, p, 0);
                  for (int64_t g = 0; g < groups; ++g) {
                    for (int64_t j = 0; j < each; ++j) {
                      out[j * groups + g] = in[g * each + j];
                    }
                  }
                }
              });
}

#define IOS_INSTANTIATE(T)                                                 \
  template void ReduceChannels(const SourceOf<T>&, PoolKind,               \
                               const TargetOf<T>&);                        \
  template void Softmax(const SourceOf<T>&, const TargetOf<T>&);           \
  template void NormalizePixels(const SourceOf<T>&, int64_t,               \
                                const Normalization&, const TargetOf<T>&); \
  template void ImageNorm::Run(const SourceOf<T>&, const Normalization&,   \
                               const TargetOf<T>&, float*) const;          \
  template void ShuffleChannels(const SourceOf<T>&, int64_t,               \
                                const TargetOf<T>&);
IOS_INSTANTIATE(float)
IOS_INSTANTIATE(BFloat16)
#undef IOS_INSTANTIATE

}  // namespace ios::cpu

#endif  // IOS_TARGET
