#include "cc/engine/cpu/kernels/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/broadcast.h"
#include "cc/engine/cpu/kernels/vectorized.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

// Floats worth handing to another thread.
constexpr int64_t kGrainFloats = 4096;

// out[i] = activation(VALUE) for i in [0, n). A Relu is part of the loop, for
// it is what most of these have; like TensorFlow's it keeps NaN.
#define IOS_ROW(VALUE)                            \
  if (activation == Activation::kRelu) {          \
    for (int64_t i = 0; i < n; ++i) {             \
      const float v = VALUE;                      \
      out[i] = v < 0.0f ? 0.0f : v;               \
    }                                             \
    return;                                       \
  }                                               \
  for (int64_t i = 0; i < n; ++i) out[i] = VALUE; \
  if (activation != Activation::kNone) {          \
    ActivateRow(out, n, activation, out);         \
  }

IOS_VECTORIZED void AddRow(const float* a, const float* b, int64_t n,
                           Activation activation,
                           float* out){IOS_ROW(a[i] + b[i])} IOS_VECTORIZED
    void ScaleRow(const float* __restrict x, const float* __restrict scale,
                  const float* __restrict shift, int64_t n,
                  Activation activation,
                  float* __restrict out){IOS_ROW(x[i] * scale[i] + shift[i])}
// Keeps NaN.
IOS_VECTORIZED void MaxRow(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = x[i] > out[i] || x[i] != x[i] ? x[i] : out[i];
  }
}
IOS_VECTORIZED void TimesRow(float factor, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] *= factor;
}

#undef IOS_ROW

// Calls row(first float, floats) for pieces of `pixels` x `channels`: long
// contiguous runs where all views are dense, else a row a pixel.
template <typename Row>
void ForRows(int64_t pixels, int64_t channels, bool dense, Row&& row) {
  if (dense) {
    ParallelFor(pixels * channels, kGrainFloats,
                [&](int64_t begin, int64_t end) {
                  // Sums of several terms stay in the cache between terms.
                  for (int64_t i = begin; i < end; i += kGrainFloats) {
                    row(0, i, std::min(kGrainFloats, end - i));
                  }
                });
  } else {
    ParallelFor(pixels, std::max<int64_t>(1, kGrainFloats / channels),
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) row(p, 0, channels);
                });
  }
}

const float* At(const Source& s, int64_t pixel, int64_t channel) {
  return s.data + pixel * s.view.pitch + channel;
}
float* At(const Target& t, int64_t pixel, int64_t channel) {
  return t.data + pixel * t.view.pitch + channel;
}

}  // namespace

void Copy(const Source& from, const Target& to) {
  ForRows(to.view.pixels(), to.view.channels(),
          from.view.dense() && to.view.dense(),
          [&](int64_t p, int64_t c, int64_t n) {
            std::memcpy(At(to, p, c), At(from, p, c), n * sizeof(float));
          });
}

void Activate(const Source& x, Activation activation, const Target& to) {
  ForRows(to.view.pixels(), to.view.channels(),
          x.view.dense() && to.view.dense(),
          [&](int64_t p, int64_t c, int64_t n) {
            ActivateRow(At(x, p, c), n, activation, At(to, p, c));
          });
}

void Add(const std::vector<Source>& terms, Activation activation,
         const Target& to) {
  bool dense = to.view.dense();
  for (const Source& term : terms) dense = dense && term.view.dense();
  ForRows(to.view.pixels(), to.view.channels(), dense,
          [&](int64_t p, int64_t c, int64_t n) {
            const float* sum = At(terms[0], p, c);
            float* out = At(to, p, c);
            for (size_t t = 1; t < terms.size(); ++t) {
              AddRow(sum, At(terms[t], p, c), n,
                     t + 1 == terms.size() ? activation : Activation::kNone,
                     out);
              sum = out;
            }
          });
}

void Binary(BinaryFunction function, const Source& x, const Source& y,
            Activation activation, const Target& to) {
  const BroadcastRows rows(x.view, y.view, to.view);
  const int64_t pieces = (rows.length() + kGrainFloats - 1) / kGrainFloats;
  ParallelFor(
      rows.count() * pieces,
      std::max<int64_t>(1, kGrainFloats / std::max<int64_t>(1, rows.length())),
      [&](int64_t begin, int64_t end) {
        BroadcastRows::Row row = rows.At(begin / pieces);
        int64_t piece = begin % pieces;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = piece * kGrainFloats;
          const int64_t n = std::min(kGrainFloats, rows.length() - first);
          float* out = to.data + row.to + first;
          BinaryRow(function, x.data + row.x + first * rows.x_step(),
                    rows.x_step(), y.data + row.y + first * rows.y_step(),
                    rows.y_step(), n, out);
          if (activation != Activation::kNone) {
            ActivateRow(out, n, activation, out);
          }
          if (++piece == pieces) {
            piece = 0;
            rows.Advance(&row);
          }
        }
      });
}

void Scale(const Source& x, const float* scale, const float* shift,
           Activation activation, const Target& to) {
  ForRows(to.view.pixels(), to.view.channels(), /*dense=*/false,
          [&](int64_t p, int64_t c, int64_t n) {
            ScaleRow(At(x, p, c), scale, shift, n, activation, At(to, p, c));
          });
}

void GlobalPool(const Source& x, PoolKind kind, const Target& to) {
  const int64_t images = x.view.shape[0], channels = x.view.channels();
  const int64_t per_image = x.view.shape[1] * x.view.shape[2];
  // Of no cells: the neutral element, divided by their number.
  const float nothing = kind == PoolKind::kMax   ? -INFINITY
                        : kind == PoolKind::kAvg ? NAN
                                                 : 0.0f;
  constexpr int64_t kChunk = 64;  // channels, four cache lines
  const int64_t chunks = (channels + kChunk - 1) / kChunk;
  ParallelFor(images * chunks,
              std::max<int64_t>(
                  1, kGrainFloats / (kChunk * std::max<int64_t>(1, per_image))),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t image = i / chunks, c = i % chunks * kChunk;
                  const int64_t n = std::min(kChunk, channels - c);
                  float* out = At(to, image, c);
                  if (per_image == 0) {
                    std::fill(out, out + n, nothing);
                    continue;
                  }
                  const int64_t first = image * per_image;
                  std::memcpy(out, At(x, first, c), n * sizeof(float));
                  for (int64_t p = first + 1; p < first + per_image; ++p) {
                    if (kind == PoolKind::kMax) {
                      MaxRow(At(x, p, c), n, out);
                    } else {
                      AddRow(out, At(x, p, c), n, Activation::kNone, out);
                    }
                  }
                  if (kind == PoolKind::kAvg)
                    TimesRow(1.0f / per_image, n, out);
                }
              });
}

}  // namespace ios::cpu
