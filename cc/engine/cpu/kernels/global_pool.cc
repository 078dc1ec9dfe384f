#include "cc/engine/cpu/kernels/global_pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/float_row.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/global_pool.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// Sets each out[i] to the larger of out[i] and x[i], or to NaN if one of them
// is NaN.
template <typename T>
void MaxRow(const T* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = ToFloat(x[i]);
    out[i] = v > out[i] || v != v ? v : out[i];
  }
}

// These vectors are not wider than the registers of AVX2, because the sums of
// wider vectors would not stay in registers.
typedef float Vector __attribute__((vector_size(32)));
constexpr int64_t kWidth = sizeof(Vector) / sizeof(float);

// Adds kVectors registers of channels of each pixel to `out`.
template <int kVectors>
IOS_INLINE void SumVectors(const float* x, int64_t pitch, int64_t pixels,
                           float* out) {
  Vector sums[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    std::memcpy(&sums[v], out + v * kWidth, sizeof(Vector));
  }
  for (int64_t p = 0; p < pixels; ++p, x += pitch) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vector value;
      std::memcpy(&value, x + v * kWidth, sizeof(Vector));
      sums[v] += value;
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    std::memcpy(out + v * kWidth, &sums[v], sizeof(Vector));
  }
}

template <int kVectors>
IOS_INLINE void SumVectors(const BFloat16* x, int64_t pitch, int64_t pixels,
                           float* out) {
  Pair<Vector> sums[kVectors / 2] = {};
  for (int64_t p = 0; p < pixels; ++p, x += pitch) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors / 2; ++v) {
      const auto values = LoadPair<Vector>(x + 2 * v * kWidth);
      sums[v].even += values.even;
      sums[v].odd += values.odd;
    }
  }
  for (const Pair<Vector>& sum : sums) {
    float even[kWidth], odd[kWidth];
    std::memcpy(even, &sum.even, sizeof(even));
    std::memcpy(odd, &sum.odd, sizeof(odd));
    for (int64_t i = 0; i < kWidth; ++i) {
      *out++ += even[i];
      *out++ += odd[i];
    }
  }
}

// Adds the first `n` channels of each of `pixels` pixels to `out`.
template <typename T>
void SumPixels(const T* x, int64_t pitch, int64_t pixels, int64_t n,
               float* out) {
  int64_t c = 0;
  for (; c + 8 * kWidth <= n; c += 8 * kWidth) {
    SumVectors<8>(x + c, pitch, pixels, out + c);
  }
  for (; c + 2 * kWidth <= n; c += 2 * kWidth) {
    SumVectors<2>(x + c, pitch, pixels, out + c);
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    for (; c + kWidth <= n; c += kWidth) {
      SumVectors<1>(x + c, pitch, pixels, out + c);
    }
  }
  if (c == n) return;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t i = c; i < n; ++i) out[i] += ToFloat(x[p * pitch + i]);
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

// The number of channels that are summed together. They fill four cache lines.
constexpr int64_t kChunk = 64;
// The number of pixels in one float32 sum. Partial sums are added in float64,
// because a float32 sum of many numbers loses digits.
constexpr int64_t kPartialPixels = 32;

// Adds x[i] to out[i]. For a max pool, sets out[i] to the larger of both
// instead, or to NaN if one of them is NaN.
template <typename T>
void Join(PoolKind kind, const T* x, int64_t n, double* out) {
  if (kind != PoolKind::kMax) {
    for (int64_t i = 0; i < n; ++i) out[i] += x[i];
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    out[i] = x[i] > out[i] || std::isnan(x[i]) ? x[i] : out[i];
  }
}

// Pools all images in chunks. A chunk is a range of channels of one image.
template <typename T>
class ImagePool {
 public:
  ImagePool(const SourceOf<T>& x, PoolKind kind, const TargetOf<T>& to)
      : x_(x),
        to_(to),
        kind_(kind),
        cells_(x.view.shape[1] * x.view.shape[2]),
        in_image_((x.view.channels() + kChunk - 1) / kChunk),
        chunks_(x.view.shape[0] * in_image_) {}

  void Run() const {
    // If there are fewer chunks than threads and the chunks are large, each
    // chunk is cut into one part per thread.
    const Lane* lane = CurrentThread().lane;
    const int64_t parts = lane ? lane->size : 1;
    if (chunks_ < parts && cells_ * kChunk >= parts * kGrainFloats) {
      RunInParts(parts);
      return;
    }
    const int64_t work = kChunk * std::max<int64_t>(1, cells_);
    ParallelFor(chunks_, std::max<int64_t>(1, kGrainFloats / work),
                [&](int64_t begin, int64_t end) {
                  double sums[kChunk];
                  for (int64_t i = begin; i < end; ++i) {
                    Pool(i, 0, cells_, sums);
                    Finish(i, sums);
                  }
                });
  }

 private:
  int64_t channel(int64_t chunk) const { return chunk % in_image_ * kChunk; }
  int64_t width(int64_t chunk) const {
    return std::min(kChunk, x_.view.channels() - channel(chunk));
  }

  // Computes the sums or maxima of a chunk's channels over cells [first, last)
  // of its image.
  void Pool(int64_t chunk, int64_t first, int64_t last, double* out) const {
    const int64_t c = channel(chunk), n = width(chunk);
    const int64_t before = chunk / in_image_ * cells_;
    if (first == last) std::fill(out, out + n, OfNothing());
    float row[kChunk];
    for (int64_t p = first; p < last; p += kPartialPixels) {
      const int64_t more = std::min(kPartialPixels, last - p) - 1;
      Widen(At(x_, before + p, c), n, row);
      if (kind_ != PoolKind::kMax) {
        IOS_DISPATCH(SumPixels<T>)
        (At(x_, before + p + 1, c), x_.view.pitch, more, n, row);
      } else {
        for (int64_t k = 1; k <= more; ++k) {
          IOS_DISPATCH(MaxRow<T>)(At(x_, before + p + k, c), n, row);
        }
      }
      if (p == first) {
        std::copy(row, row + n, out);
      } else {
        Join(kind_, row, n, out);
      }
    }
  }

  // Returns the result for an image without cells.
  double OfNothing() const {
    if (kind_ == PoolKind::kMax) return -INFINITY;
    return kind_ == PoolKind::kAvg ? NAN : 0.0;
  }

  void Finish(int64_t chunk, const double* sums) const {
    T* const to = At(to_, chunk / in_image_, channel(chunk));
    FloatRow<T> row;
    float* const out = row.Begin(to);
    const double count = kind_ == PoolKind::kAvg ? cells_ : 1;
    for (int64_t k = 0; k < width(chunk); ++k) {
      out[k] = static_cast<float>(sums[k] / count);
    }
    row.Finish(width(chunk), to);
  }

  void RunInParts(int64_t parts) const {
    std::vector<double> sums(chunks_ * parts * kChunk);
    const auto sum = [&](int64_t chunk, int64_t part) {
      return sums.data() + (chunk * parts + part) * kChunk;
    };
    ParallelFor(chunks_ * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        int64_t first, last;
        Split(cells_, parts, k % parts, &first, &last);
        Pool(k / parts, first, last, sum(k / parts, k % parts));
      }
    });
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      for (int64_t part = 1; part < parts; ++part) {
        Join(kind_, sum(chunk, part), width(chunk), sum(chunk, 0));
      }
      Finish(chunk, sum(chunk, 0));
    }
  }

  const SourceOf<T> x_;
  const TargetOf<T> to_;
  const PoolKind kind_;
  const int64_t cells_, in_image_, chunks_;
};

}  // namespace

template <typename T>
void GlobalPool(const SourceOf<T>& x, PoolKind kind, const TargetOf<T>& to) {
  ImagePool<T>(x, kind, to).Run();
}

#define IOS_INSTANTIATE(T) \
  template void GlobalPool(const SourceOf<T>&, PoolKind, const TargetOf<T>&);
IOS_INSTANTIATE(float)
IOS_INSTANTIATE(BFloat16)
#undef IOS_INSTANTIATE

}  // namespace ios::cpu

#endif  // IOS_TARGET
