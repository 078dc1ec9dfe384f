#include "cc/engine/cpu/kernels/global_pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/vectorized.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

// Channels that are summed together: four cache lines.
constexpr int64_t kChunk = 64;
// Of a sum in float32: of more, a large map far from 0 would lose digits.
constexpr int64_t kPartialPixels = 32;

// Keeps NaN.
IOS_VECTORIZED void MaxRow(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = x[i] > out[i] || x[i] != x[i] ? x[i] : out[i];
  }
}

typedef float Vector __attribute__((vector_size(64)));
constexpr int64_t kWidth = sizeof(Vector) / sizeof(float);

template <int kVectors>
IOS_INLINE void SumVectors(const float* x, int64_t pitch, int64_t pixels,
                           float* out) {
  Vector sums[kVectors];
  std::memcpy(sums, out, sizeof(sums));
  for (int64_t p = 0; p < pixels; ++p, x += pitch) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      Vector value;
      std::memcpy(&value, x + v * kWidth, sizeof(Vector));
      sums[v] += value;
    }
  }
  std::memcpy(out, sums, sizeof(sums));
}

// Adds `n` channels of so many pixels to `out`.
IOS_VECTORIZED void SumPixels(const float* x, int64_t pitch, int64_t pixels,
                              int64_t n, float* out) {
  int64_t c = 0;
  for (; c + 4 * kWidth <= n; c += 4 * kWidth) {
    SumVectors<4>(x + c, pitch, pixels, out + c);
  }
  for (; c + kWidth <= n; c += kWidth) {
    SumVectors<1>(x + c, pitch, pixels, out + c);
  }
  if (c == n) return;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t i = c; i < n; ++i) out[i] += x[p * pitch + i];
  }
}

// Adds `x` to `out`, or takes the larger ones; a NaN stays one.
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

}  // namespace

void GlobalPool(const Source& x, PoolKind kind, const Target& to) {
  const int64_t images = x.view.shape[0], channels = x.view.channels();
  const int64_t per_image = x.view.shape[1] * x.view.shape[2];
  // Of no cells: the neutral element, divided by their number.
  const float nothing = kind == PoolKind::kMax   ? -INFINITY
                        : kind == PoolKind::kAvg ? NAN
                                                 : 0.0f;
  const int64_t chunks = (channels + kChunk - 1) / kChunk;
  const auto width = [&](int64_t i) {
    return std::min(kChunk, channels - i % chunks * kChunk);
  };
  // The sums or maxima of a chunk's channels over some of its image's pixels.
  const auto chunk = [&](int64_t i, int64_t first, int64_t last, double* out) {
    const int64_t c = i % chunks * kChunk, n = width(i);
    const int64_t before = i / chunks * per_image;
    if (first == last) std::fill(out, out + n, nothing);
    float row[kChunk];
    for (int64_t p = first; p < last; p += kPartialPixels) {
      const int64_t more = std::min(kPartialPixels, last - p) - 1;
      std::memcpy(row, At(x, before + p, c), n * sizeof(float));
      if (kind != PoolKind::kMax) {
        SumPixels(At(x, before + p + 1, c), x.view.pitch, more, n, row);
      } else {
        for (int64_t k = 1; k <= more; ++k) {
          MaxRow(At(x, before + p + k, c), n, row);
        }
      }
      if (p == first) {
        std::copy(row, row + n, out);
      } else {
        Join(kind, row, n, out);
      }
    }
  };
  const auto finish = [&](int64_t i, const double* sums) {
    float* out = At(to, i / chunks, i % chunks * kChunk);
    const double count = kind == PoolKind::kAvg ? per_image : 1;
    for (int64_t k = 0; k < width(i); ++k) {
      out[k] = static_cast<float>(sums[k] / count);
    }
  };
  // A few large ones are cut into as many parts as there are threads.
  const Lane* lane = CurrentThread().lane;
  const int64_t parts = lane ? lane->size : 1;
  if (images * chunks < parts && per_image * kChunk >= parts * kGrainFloats) {
    std::vector<double> sums(images * chunks * parts * kChunk);
    const auto sum = [&](int64_t i, int64_t part) {
      return sums.data() + (i * parts + part) * kChunk;
    };
    ParallelFor(images * chunks * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        int64_t first, last;
        Split(per_image, parts, k % parts, &first, &last);
        chunk(k / parts, first, last, sum(k / parts, k % parts));
      }
    });
    for (int64_t i = 0; i < images * chunks; ++i) {
      for (int64_t part = 1; part < parts; ++part) {
        Join(kind, sum(i, part), width(i), sum(i, 0));
      }
      finish(i, sum(i, 0));
    }
    return;
  }
  ParallelFor(images * chunks,
              std::max<int64_t>(
                  1, kGrainFloats / (kChunk * std::max<int64_t>(1, per_image))),
              [&](int64_t begin, int64_t end) {
                double sums[kChunk];
                for (int64_t i = begin; i < end; ++i) {
                  chunk(i, 0, per_image, sums);
                  finish(i, sums);
                }
              });
}

}  // namespace ios::cpu
