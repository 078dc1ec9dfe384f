#include "cc/engine/cpu/kernels/depthwise_rows.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/kernels/vectorized.h"

namespace ios::cpu {
namespace {

typedef int32_t Mask
    __attribute__((vector_size(kVectorFloats * sizeof(float))));

IOS_INLINE void Load(const float* from, Vector* v) {
  std::memcpy(v, from, sizeof(Vector));
}

template <bool kRelu>
IOS_INLINE void Keep(Vector* values, float* to) {
  if (kRelu) *values = *values < 0.0f ? Vector{} : *values;  // keeps NaN
  std::memcpy(to, values, sizeof(Vector));
}

// The sum of kTerms terms, or of all there are for 0, from a channel of a pixel
// on.
template <int kTerms>
IOS_INLINE Vector SumAt(const Term* terms, int64_t count, int64_t pixel,
                        int64_t channel) {
  Vector sum;
  Load(terms[0].x + pixel * terms[0].pitch + channel, &sum);
  if (kTerms > 0) count = kTerms;
  for (int64_t t = 1; t < count; ++t) {
    Vector term;
    Load(terms[t].x + pixel * terms[t].pitch + channel, &term);
    sum += term;
  }
  return sum;
}

template <bool kRelu, int kTerms>
IOS_INLINE void CopyRow(const InputRow& row) {
  const Term* terms = row.terms->data();
  const int64_t count = row.terms->size(), channels = row.channels;
  Vector values;
  if (channels >= kVectorFloats) {
    for (int64_t i = 0; i < row.columns; ++i) {
      const int64_t pixel = row.pixel + i;
      float* to = row.to + i * kVectorFloats;
      Term here[kTerms > 0 ? kTerms : 1];
      for (int t = 0; t < kTerms; ++t) {
        here[t] = {terms[t].x + pixel * terms[t].pitch, 0};
      }
      const Term* from = kTerms > 0 ? here : terms;
      int64_t c = 0;
      for (; c + kVectorFloats <= channels;
           c += kVectorFloats, to += row.vector_step) {
        values = SumAt<kTerms>(from, count, pixel, c);
        Keep<kRelu>(&values, to);
      }
      if (c < channels) {
        values = SumAt<kTerms>(from, count, pixel, FirstChannel(c, channels));
        Keep<kRelu>(&values, to);
      }
    }
    return;
  }
  Mask mask;
  for (int64_t c = 0; c < kVectorFloats; ++c) mask[c] = c < channels ? -1 : 0;
  for (int64_t i = 0; i < row.columns; ++i) {
    const int64_t pixel = row.pixel + i;
    if (i < row.whole) {
      values = SumAt<kTerms>(terms, count, pixel, 0);
      values = reinterpret_cast<Vector>(reinterpret_cast<Mask>(values) & mask);
    } else {
      values = Vector{};
      for (int64_t t = 0; t < count; ++t) {
        const float* x = terms[t].x + pixel * terms[t].pitch;
        for (int64_t c = 0; c < channels; ++c) values[c] += x[c];
      }
    }
    Keep<kRelu>(&values, row.to + i * kVectorFloats);
  }
}

}  // namespace

IOS_VECTORIZED void CopyInputRow(const InputRow& row) {
  switch (row.terms->size()) {
    case 1:
      return row.relu ? CopyRow<true, 1>(row) : CopyRow<false, 1>(row);
    case 2:
      return row.relu ? CopyRow<true, 2>(row) : CopyRow<false, 2>(row);
    case 3:
      return row.relu ? CopyRow<true, 3>(row) : CopyRow<false, 3>(row);
    case 4:
      return row.relu ? CopyRow<true, 4>(row) : CopyRow<false, 4>(row);
    default:
      return row.relu ? CopyRow<true, 0>(row) : CopyRow<false, 0>(row);
  }
}

namespace {

// Windows of one width that are computed at once: with their factors and a
// pixel they stay in registers.
template <typename Isa, int kFactors>
constexpr int kWindows =
    std::min(8, (sizeof(typename Isa::Vector) == 64 ? 32 : 16) - 2 - kFactors);

// Adds what a row of the image gives to kCount windows kWidth wide that are
// kStride pixels apart: a pixel is loaded once for all of them.
template <int kWidth, int kStride, int kCount, typename V>
IOS_INLINE void AddRow(const float* x, int64_t pixel, const V* factors,
                       V* sums) {
#pragma GCC unroll 32
  for (int i = 0; i < (kCount - 1) * kStride + kWidth; ++i, x += pixel) {
    V v;
    std::memcpy(&v, x, sizeof(V));
#pragma GCC unroll 8
    for (int k = 0; k < kWidth; ++k) {
      const int window = (i - k) / kStride;
      if (i >= k && window * kStride == i - k && window < kCount) {
        sums[window] += v * factors[k];
      }
    }
  }
}

// Any windows.
template <int kCount, typename V>
IOS_INLINE void AddAnyRow(const OutputRow& row, const float* x,
                          const float* filter, V* sums) {
  for (int64_t k = 0; k < row.width; ++k) {
    V factor;
    std::memcpy(&factor, filter + k * row.filter_step, sizeof(V));
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      V v;
      std::memcpy(&v, x + k * row.step + i * row.stride, sizeof(V));
      sums[i] += v * factor;
    }
  }
}

template <int kWidth, typename V>
IOS_INLINE void LoadFactors(const OutputRow& row, const float* filter,
                            V* factors) {
#pragma GCC unroll 8
  for (int k = 0; k < kWidth; ++k) {
    std::memcpy(&factors[k], filter + k * row.filter_step, sizeof(V));
  }
}

// Writes kCount pixels.
template <int kCount, typename V>
IOS_INLINE void Write(const OutputRow& row, int64_t column, int64_t part,
                      V* sums) {
  if (row.activation != Activation::kNone) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      ActivateInRegisters(row.activation, &sums[i]);
    }
  }
  float* const out = row.out + column * row.pitch + part;
  if (column + kCount <= row.whole) {
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      std::memcpy(out + i * row.pitch, &sums[i], sizeof(V));
    }
    return;
  }
  // Elsewhere in memory first: registers cannot be written in pieces.
  float pixels[kCount][Width<V>()];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) std::memcpy(pixels[i], &sums[i], sizeof(V));
  for (int i = 0; i < kCount; ++i) {
    const int64_t floats = column + i < row.whole
                               ? Width<V>()
                               : std::min(Width<V>(), row.channels - part);
    CopyPart(pixels[i], floats, out + i * row.pitch);
  }
}

// A row of windows, of as many channels as a V has, from the vector's channel
// `part` on. kWidth and kStride are 0 for any windows. The factors of kRows
// rows stay in registers, where all of these are in the image.
template <typename Isa, typename V, int kRows, int kWidth, int kStride>
struct Columns {
  static constexpr int kFactors = std::max(kRows, 1) * std::max(kWidth, 1);
  static constexpr int kMost = kWindows<Isa, kFactors>;

  const OutputRow& row;
  const int64_t part;
  V factors[kFactors];

  IOS_INLINE Columns(const OutputRow& row, int64_t part)
      : row(row), part(part) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      LoadFactors<kWidth>(row, Filter(r), factors + r * kWidth);
    }
  }

  IOS_INLINE const float* Filter(int64_t r) const {
    return row.filter + r * row.width * row.filter_step + part;
  }

  template <int kCount>
  IOS_INLINE void Compute(int64_t column) {
    V sums[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      std::memcpy(&sums[i], reinterpret_cast<const float*>(&row.bias) + part,
                  sizeof(V));
    }
    const int64_t offset = column * row.stride + part;
    if constexpr (kRows > 0) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        AddRow<kWidth, kStride, kCount>(row.rows[r] + offset, row.pixel,
                                        factors + r * kWidth, sums);
      }
    } else {
      for (int64_t r = 0; r < row.count; ++r) {
        const float* const filter = Filter(row.first + r);
        if constexpr (kWidth > 0) {
          LoadFactors<kWidth>(row, filter, factors);
          AddRow<kWidth, kStride, kCount>(row.rows[r] + offset, row.pixel,
                                          factors, sums);
        } else {
          AddAnyRow<kCount>(row, row.rows[r] + offset, filter, sums);
        }
      }
    }
    Write<kCount>(row, column, part, sums);
  }

  template <int kCount = kMost - 1>
  IOS_INLINE void ComputeRest(int64_t column) {
    if constexpr (kCount > 0) {
      if (row.columns - column < kCount) {
        ComputeRest<kCount - 1>(column);
      } else {
        Compute<kCount>(column);
      }
    }
  }

  IOS_INLINE void ComputeAll() {
    int64_t column = 0;
    for (; column + kMost <= row.columns; column += kMost) {
      Compute<kMost>(column);
    }
    ComputeRest(column);
  }
};

template <typename Isa, int kStride>
IOS_INLINE bool ComputeAdjacent(const OutputRow& row, int64_t part) {
  using V = typename Isa::Vector;
  if (row.step != row.pixel || row.stride != kStride * row.pixel) return false;
  switch (row.width) {
    case 3:
      if (row.first == 0 && row.count == 3) {
        Columns<Isa, V, 3, 3, kStride>(row, part).ComputeAll();
      } else {
        Columns<Isa, V, 0, 3, kStride>(row, part).ComputeAll();
      }
      return true;
    case 5:
      Columns<Isa, V, 0, 5, kStride>(row, part).ComputeAll();
      return true;
  }
  // Those of networks such as ConvNeXt.
  if constexpr (kStride == 1) {
    if (row.width == 7) {
      Columns<Isa, V, 0, 7, kStride>(row, part).ComputeAll();
      return true;
    }
  }
  return false;
}

// Code for the usual windows takes long to compile: x86 processors without
// AVX2, of before 2013, do without.
#ifdef __x86_64__
template <typename Isa>
constexpr bool kHasAdjacent = !std::is_same_v<Isa, Baseline>;
#else
template <typename Isa>
constexpr bool kHasAdjacent = true;
#endif

template <typename Isa>
IOS_INLINE void Compute(const OutputRow& row) {
  constexpr int64_t kWidth = Width<typename Isa::Vector>();
  const int64_t channels = std::min(row.channels, kVectorFloats);
  // The last channels first: what is written beyond a pixel are the first ones
  // of the next.
  for (int64_t part = (channels - 1) / kWidth * kWidth; part >= 0;
       part -= kWidth) {
    if constexpr (kHasAdjacent<Isa>) {
      if (ComputeAdjacent<Isa, 1>(row, part)) continue;
      if (ComputeAdjacent<Isa, 2>(row, part)) continue;
    }
    Columns<Isa, typename Isa::Vector, 0, 0, 0>(row, part).ComputeAll();
  }
}

// The code of rows, once for each instruction set.
void Run(Baseline, const OutputRow& row) { Compute<Baseline>(row); }
#ifdef __x86_64__
IOS_AVX2 void Run(Avx2, const OutputRow& row) { Compute<Avx2>(row); }
IOS_AVX512 void Run(Avx512, const OutputRow& row) { Compute<Avx512>(row); }
#endif

}  // namespace

void ComputeRow(const OutputRow& row) {
  ForBestInstructionSet([&](auto isa) { Run(isa, row); });
}

}  // namespace ios::cpu
