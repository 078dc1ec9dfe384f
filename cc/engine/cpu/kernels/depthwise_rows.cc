#include "cc/engine/cpu/kernels/depthwise_rows.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/kernels/registers.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/depthwise_rows.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"
#include "cc/engine/cpu/kernels/registers-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// Returns the sum of kTerms terms (all `count` terms if kTerms is 0) for one
// vector of channels that starts at `channel` of `pixel`.
template <int kTerms, typename T>
IOS_INLINE Native::Vector SumAt(const Term<T>* terms, int64_t count,
                                int64_t pixel, int64_t channel) {
  Native::Vector sum =
      LoadVector(terms[0].x + pixel * terms[0].pitch + channel);
  if (kTerms > 0) count = kTerms;
  for (int64_t t = 1; t < count; ++t) {
    sum += LoadVector(terms[t].x + pixel * terms[t].pitch + channel);
  }
  return sum;
}

// Copies kVectorFloats channels of the sum, with the activation applied.
template <Activation::Kind kActivation, int kTerms, typename T>
IOS_INLINE void CopyChannels(const Term<T>* terms, int64_t count, int64_t pixel,
                             int64_t channel, float* to) {
  using V = Native::Vector;
#pragma GCC unroll 4
  for (int64_t part = 0; part < kVectorFloats; part += Width<V>()) {
    V sum = SumAt<kTerms>(terms, count, pixel, channel + part);
    ActivateInRegisters(kActivation, &sum);
    std::memcpy(to + part, &sum, sizeof(V));
  }
}

template <Activation::Kind kActivation, int kTerms, typename T>
IOS_INLINE void CopyRow(const InputRow<T>& row) {
  const Term<T>* terms = row.terms->data();
  const int64_t count = row.terms->size(), channels = row.channels;
  if (channels >= kVectorFloats) {
    for (int64_t i = 0; i < row.columns; ++i) {
      const int64_t pixel = row.pixel + i;
      float* to = row.to + i * kVectorFloats;
      Term<T> here[kTerms > 0 ? kTerms : 1];
      for (int t = 0; t < kTerms; ++t) {
        here[t] = {terms[t].x + pixel * terms[t].pitch, 0};
      }
      const Term<T>* from = kTerms > 0 ? here : terms;
      for (int64_t c = 0; c < channels;
           c += kVectorFloats, to += row.vector_step) {
        CopyChannels<kActivation, kTerms>(from, count, pixel,
                                          FirstChannel(c, channels), to);
      }
    }
    return;
  }
  // A vector may contain floats beyond a pixel's channels. These floats only
  // affect floats beyond a pixel of the output, which are overwritten later.
  float* to = row.to;
  int64_t i = 0;
  for (; i < std::min(row.whole, row.columns); ++i, to += kVectorFloats) {
    CopyChannels<kActivation, kTerms>(terms, count, row.pixel + i, 0, to);
  }
  for (; i < row.columns; ++i, to += kVectorFloats) {
    float sums[kVectorFloats] = {};
    for (int64_t t = 0; t < count; ++t) {
      const T* x = terms[t].x + (row.pixel + i) * terms[t].pitch;
      for (int64_t c = 0; c < channels; ++c) sums[c] += ToFloat(x[c]);
    }
    const Term<float> sum = {sums, 0};
    CopyChannels<kActivation, 1>(&sum, 1, 0, 0, to);
  }
}

template <Activation::Kind kActivation, typename T>
IOS_INLINE void CopyAnyRow(const InputRow<T>& row) {
  switch (row.terms->size()) {
    case 1:
      return CopyRow<kActivation, 1>(row);
    case 2:
      return CopyRow<kActivation, 2>(row);
    case 3:
      return CopyRow<kActivation, 3>(row);
    case 4:
      return CopyRow<kActivation, 4>(row);
    default:
      return CopyRow<kActivation, 0>(row);
  }
}

template <typename T>
void Copy(const InputRow<T>& row) {
  row.relu ? CopyAnyRow<Activation::kRelu>(row)
           : CopyAnyRow<Activation::kNone>(row);
}

// The number of windows that are computed together. Their sums, their factors
// and a pixel fit into the registers.
template <int kFactors>
constexpr int kWindows = std::min(8, Native::kRegisters - 2 - kFactors);

// Returns true if element `at` of a row lies before or behind the row.
template <typename S>
IOS_INLINE bool IsPadding(const OutputRow<S>& row, int64_t at) {
  return static_cast<uint64_t>(at) >= static_cast<uint64_t>(row.end);
}

// Adds the products of the row `x` to kCount windows that are kWidth wide and
// kStride pixels apart. The first window begins at element `at`. Each pixel is
// loaded once for all windows.
template <bool kIsPadded, int kWidth, int kStride, int kCount, typename S,
          typename V>
IOS_INLINE void AddRow(const OutputRow<S>& row, const S* x, int64_t at,
                       const V* factors, V* sums) {
  constexpr int kPixels = (kCount - 1) * kStride + kWidth;
  if (kIsPadded) x += at;
#pragma GCC unroll 32
  for (int i = 0; i < kPixels; ++i, at += row.pixel) {
    // Only the first and the last pixels may be padding, see ComputeRow().
    const bool is_inside = i >= kWidth - 1 && i <= kPixels - kWidth;
    if (!kIsPadded && !is_inside && IsPadding(row, at)) continue;
    const V v = LoadVector(kIsPadded ? x + i * row.pixel : x + at);
#pragma GCC unroll 8
    for (int k = 0; k < kWidth; ++k) {
      const int window = (i - k) / kStride;
      if (i >= k && window * kStride == i - k && window < kCount) {
        sums[window] += v * factors[k];
      }
    }
  }
}

// Does what AddRow does, for windows of any width, stride and dilation.
template <bool kIsPadded, int kCount, typename S, typename V>
IOS_INLINE void AddAnyRow(const OutputRow<S>& row, const S* x, int64_t begin,
                          const float* filter, V* sums) {
  for (int64_t k = 0; k < row.width; ++k) {
    V factor;
    std::memcpy(&factor, filter + k * row.filter_step, sizeof(V));
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int64_t at = begin + k * row.step + i * row.stride;
      if (!kIsPadded && IsPadding(row, at)) continue;
      sums[i] += LoadVector(x + at) * factor;
    }
  }
}

template <int kWidth, typename S, typename V>
IOS_INLINE void LoadFactors(const OutputRow<S>& row, const float* filter,
                            V* factors) {
#pragma GCC unroll 8
  for (int k = 0; k < kWidth; ++k) {
    std::memcpy(&factors[k], filter + k * row.filter_step, sizeof(V));
  }
}

// Writes kCount pixels of the output.
template <int kCount, typename S, typename T, typename V>
IOS_INLINE void Write(const OutputRow<S>& row, int64_t column, int64_t part,
                      V* sums, T* out) {
  if (row.activation != Activation::kNone) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      ActivateInRegisters(row.activation, &sums[i]);
    }
  }
  out += column * row.pitch + part;
  if (column + kCount <= row.whole) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      StoreVector(sums[i], out + i * row.pitch);
    }
    return;
  }
  // Copies the registers to a buffer first, because a part of a register cannot
  // be stored.
  T pixels[kCount][Width<V>()];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) StoreVector(sums[i], pixels[i]);
  for (int i = 0; i < kCount; ++i) {
    const int64_t count = column + i < row.whole
                              ? Width<V>()
                              : std::min(Width<V>(), row.channels - part);
    CopyPart(pixels[i], count, out + i * row.pitch);
  }
}

// One vector of channels in some columns of the output.
struct Tile {
  int64_t begin, end;  // columns
  int64_t channel;     // first channel of the vector
  int64_t place;       // elements from the start of a pixel to the vector
};

// Computes a tile of rows of windows for the channels of one register, V, which
// starts at channel `part` of the vector of kVectorFloats channels. With kWidth
// and kStride 0, windows may have any shape. With kRows > 0, windows have kRows
// rows, all of them inside the image, whose factors stay in registers.
template <bool kIsPadded, typename S, typename T, typename V, int kRows,
          int kWidth, int kStride>
struct Columns {
  static constexpr int kFactors = std::max(kRows, 1) * std::max(kWidth, 1);
  static constexpr int kMost = kWindows<kFactors>;

  const OutputRow<S>& row;
  const Tile& tile;
  const int64_t part;
  T* out;
  int64_t windows;  // elements from `row.rows` to the windows
  V bias = {};
  V factors[kFactors];

  IOS_INLINE Columns(const OutputRow<S>& row, const Tile& tile, int64_t part,
                     T* out)
      : row(row), tile(tile), part(part), out(out), windows(tile.place + part) {
    if (row.bias) {
      std::memcpy(&bias, row.bias + tile.channel + part, sizeof(V));
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      LoadFactors<kWidth>(row, Filter(r), factors + r * kWidth);
    }
  }

  IOS_INLINE const float* Filter(int64_t r) const {
    return row.filter + tile.channel + r * row.width * row.filter_step + part;
  }

  template <int kCount>
  IOS_INLINE void Compute(int64_t column) {
    V sums[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) sums[i] = bias;
    const int64_t begin = column * row.stride - row.left;
    if constexpr (kRows > 0) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        AddRow<kIsPadded, kWidth, kStride, kCount>(
            row, row.rows[r] + windows, begin, factors + r * kWidth, sums);
      }
    } else {
      for (int64_t r = 0; r < row.count; ++r) {
        const float* const filter = Filter(row.first + r);
        if constexpr (kWidth > 0) {
          LoadFactors<kWidth>(row, filter, factors);
          AddRow<kIsPadded, kWidth, kStride, kCount>(row, row.rows[r] + windows,
                                                     begin, factors, sums);
        } else {
          AddAnyRow<kIsPadded, kCount>(row, row.rows[r] + windows, begin,
                                       filter, sums);
        }
      }
    }
    Write<kCount>(row, column, part, sums, out);
  }

  template <int kCount = kMost - 1>
  IOS_INLINE void ComputeRest(int64_t column) {
    if constexpr (kCount > 0) {
      if (tile.end - column < kCount) {
        ComputeRest<kCount - 1>(column);
      } else {
        Compute<kCount>(column);
      }
    }
  }

  IOS_INLINE void ComputeAll() {
    for (int64_t y = 1;; ++y) {
      int64_t column = tile.begin;
      for (; column + kMost <= tile.end; column += kMost) {
        Compute<kMost>(column);
      }
      ComputeRest(column);
      if (y == row.height) break;
      windows += row.next_windows;
      out += row.next_output;
    }
  }
};

// Computes all tiles, each for the vectors `begin` to `end` of channels.
template <typename TileColumns, typename S, typename T>
IOS_INLINE void ComputeVectors(const OutputRow<S>& row, int64_t begin,
                               int64_t end, T* out) {
  constexpr int64_t kWidth = Width<Native::Vector>();
  const int64_t from = FirstChannel(begin * kVectorFloats, row.channels);
  const int64_t channels = std::min(row.channels, kVectorFloats);
  for (int64_t column = 0; column < row.columns; column += row.tile_columns) {
    Tile tile;
    tile.begin = column;
    tile.end = std::min(column + row.tile_columns, row.columns);
    for (int64_t v = begin; v < end; ++v) {
      tile.channel = FirstChannel(v * kVectorFloats, row.channels);
      tile.place = row.vector_step ? v * row.vector_step : tile.channel;
      // The last channels are computed first. Their vector also overwrites the
      // first channels of the next pixel, which are written later.
      for (int64_t part = (channels - 1) / kWidth * kWidth; part >= 0;
           part -= kWidth) {
        TileColumns(row, tile, part, out + tile.channel - from).ComputeAll();
      }
    }
  }
}

// Special code for the usual windows takes long to compile. So x86 processors
// without AVX2, which were made before 2013, use the general code.
#ifdef __x86_64__
constexpr bool kHasAdjacent = IOS_VECTOR_BYTES > 16;
#else
constexpr bool kHasAdjacent = true;
#endif

// Returns true if ComputeAdjacent() computes windows of this width, which are
// `stride` columns apart.
constexpr bool IsUsual(int64_t width, int64_t stride) {
  if (!kHasAdjacent) return false;
  // Windows of width 7 occur in networks such as ConvNeXt.
  if (stride == 1) return width == 3 || width == 5 || width == 7;
  return stride == 2 && (width == 3 || width == 5);
}

int64_t LoadsOfLine(int64_t width, int64_t stride, int64_t dilation) {
  const int64_t parts = kVectorFloats / Width<Native::Vector>();
  return dilation == 1 && IsUsual(width, stride) ? parts : parts * width;
}

template <bool kIsPadded, int kStride, typename S, typename T>
IOS_INLINE bool ComputeAdjacent(const OutputRow<S>& row, int64_t begin,
                                int64_t end, T* out) {
  using V = Native::Vector;
  if (row.step != row.pixel || row.stride != kStride * row.pixel) return false;
  switch (row.width) {
    case 3:
      if (row.first == 0 && row.count == 3) {
        ComputeVectors<Columns<kIsPadded, S, T, V, 3, 3, kStride>>(row, begin,
                                                                   end, out);
      } else {
        ComputeVectors<Columns<kIsPadded, S, T, V, 0, 3, kStride>>(row, begin,
                                                                   end, out);
      }
      return true;
    case 5:
      ComputeVectors<Columns<kIsPadded, S, T, V, 0, 5, kStride>>(row, begin,
                                                                 end, out);
      return true;
  }
  if constexpr (IsUsual(7, kStride)) {
    if (row.width == 7) {
      ComputeVectors<Columns<kIsPadded, S, T, V, 0, 7, kStride>>(row, begin,
                                                                 end, out);
      return true;
    }
  }
  return false;
}

template <bool kIsPadded, typename S, typename T>
void Compute(const OutputRow<S>& row, int64_t begin, int64_t end, T* out) {
  if constexpr (kHasAdjacent) {
    if (ComputeAdjacent<kIsPadded, 1>(row, begin, end, out)) return;
    if (ComputeAdjacent<kIsPadded, 2>(row, begin, end, out)) return;
  }
  ComputeVectors<Columns<kIsPadded, S, T, Native::Vector, 0, 0, 0>>(row, begin,
                                                                    end, out);
}

template <typename T>
void StoreAll(const float* vectors, int64_t count, int64_t channels, T* to,
              int64_t pitch) {
  constexpr int64_t kWidth = Width<Native::Vector>();
  for (int64_t i = 0; i < count; ++i, vectors += kVectorFloats, to += pitch) {
    int64_t c = 0;
#pragma GCC unroll 4
    for (; c + kWidth <= channels; c += kWidth) {
      StoreVector(LoadVector(vectors + c), to + c);
    }
    for (; c < channels; ++c) Put(vectors[c], to + c);
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

void CopyInputRow(const InputRow<float>& row) {
  IOS_DISPATCH(Copy<float>)(row);
}

void CopyInputRow(const InputRow<BFloat16>& row) {
  IOS_DISPATCH(Copy<BFloat16>)(row);
}

template <bool kIsPadded, typename S, typename T>
void ComputeRow(const OutputRow<S>& row, int64_t begin, int64_t end, T* out) {
  IOS_DISPATCH(Compute<kIsPadded, S, T>)(row, begin, end, out);
}

template void ComputeRow<true>(const OutputRow<float>&, int64_t, int64_t,
                               float*);
template void ComputeRow<true>(const OutputRow<float>&, int64_t, int64_t,
                               BFloat16*);
template void ComputeRow<false>(const OutputRow<float>&, int64_t, int64_t,
                                float*);
template void ComputeRow<false>(const OutputRow<BFloat16>&, int64_t, int64_t,
                                float*);
template void ComputeRow<false>(const OutputRow<BFloat16>&, int64_t, int64_t,
                                BFloat16*);

int64_t LineLoads(int64_t width, int64_t stride, int64_t dilation) {
  return IOS_DISPATCH(LoadsOfLine)(width, stride, dilation);
}

void StoreVectors(const float* vectors, int64_t count, int64_t channels,
                  float* to, int64_t pitch) {
  IOS_DISPATCH(StoreAll<float>)(vectors, count, channels, to, pitch);
}

void StoreVectors(const float* vectors, int64_t count, int64_t channels,
                  BFloat16* to, int64_t pitch) {
  IOS_DISPATCH(StoreAll<BFloat16>)(vectors, count, channels, to, pitch);
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
