#include "cc/engine/cpu/kernels/depthwise_rows.h"

#include <cstring>

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

// Windows kWidth wide that lie side by side: a pixel is loaded once for all of
// them. kPixel floats are between pixels, or row.pixel for 0.
template <int kWidth, int kPixel, int kCount>
IOS_INLINE void Adjacent(const OutputRow& row, int64_t column, Vector* sums) {
  const int64_t step = kPixel > 0 ? kPixel : row.pixel;
  for (int64_t r = 0; r < row.count; ++r) {
    const float* x = row.rows[r] + column * step;
    const float* filter =
        row.filter + (row.first + r) * kWidth * row.filter_step;
    Vector factors[kWidth];
#pragma GCC unroll 8
    for (int k = 0; k < kWidth; ++k) {
      Load(filter + k * row.filter_step, &factors[k]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kWidth + kCount - 1; ++i) {
      Vector pixel;
      Load(x + i * step, &pixel);
#pragma GCC unroll 8
      for (int k = 0; k < kWidth; ++k) {
        if (i - k >= 0 && i - k < kCount) sums[i - k] += pixel * factors[k];
      }
    }
  }
}

// Any windows.
template <int kCount>
IOS_INLINE void Apart(const OutputRow& row, int64_t column, Vector* sums) {
  for (int64_t r = 0; r < row.count; ++r) {
    const float* x = row.rows[r] + column * row.stride;
    const float* filter =
        row.filter + (row.first + r) * row.width * row.filter_step;
    for (int64_t k = 0; k < row.width; ++k) {
      Vector factor;
      Load(filter + k * row.filter_step, &factor);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        Vector pixel;
        Load(x + k * row.step + i * row.stride, &pixel);
        sums[i] += pixel * factor;
      }
    }
  }
}

// kWidth is 0 for any windows.
template <int kWidth, int kPixel, int kCount>
IOS_INLINE void Columns(const OutputRow& row, int64_t column) {
  Vector sums[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) sums[i] = row.bias;
  if constexpr (kWidth > 0) {
    Adjacent<kWidth, kPixel, kCount>(row, column, sums);
  } else {
    Apart<kCount>(row, column, sums);
  }
  float* out = row.out + column * row.pitch;
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    ActivateInRegisters(row.activation, &sums[i]);
    if (column + i < row.whole) {
      std::memcpy(out + i * row.pitch, &sums[i], sizeof(Vector));
    } else {
      for (int64_t c = 0; c < row.channels; ++c)
        out[i * row.pitch + c] = sums[i][c];
    }
  }
}

template <int kWidth, int kPixel>
IOS_INLINE void AllColumns(const OutputRow& row) {
  int64_t column = 0;
  for (; column + 8 <= row.columns; column += 8)
    Columns<kWidth, kPixel, 8>(row, column);
  switch (row.columns - column) {
    case 7:
      return Columns<kWidth, kPixel, 7>(row, column);
    case 6:
      return Columns<kWidth, kPixel, 6>(row, column);
    case 5:
      return Columns<kWidth, kPixel, 5>(row, column);
    case 4:
      return Columns<kWidth, kPixel, 4>(row, column);
    case 3:
      return Columns<kWidth, kPixel, 3>(row, column);
    case 2:
      return Columns<kWidth, kPixel, 2>(row, column);
    case 1:
      return Columns<kWidth, kPixel, 1>(row, column);
  }
}

// Whether there is code for windows that lie side by side.
template <int kPixel>
IOS_INLINE bool ComputeAdjacent(const OutputRow& row) {
  switch (row.width) {
    case 3:
      AllColumns<3, kPixel>(row);
      return true;
    case 5:
      AllColumns<5, kPixel>(row);
      return true;
    case 7:
      AllColumns<7, kPixel>(row);
      return true;
  }
  return false;
}

}  // namespace

IOS_VECTORIZED void ComputeRow(const OutputRow& row) {
  if (row.step == row.pixel && row.stride == row.pixel) {
    if (row.pixel == kVectorFloats ? ComputeAdjacent<kVectorFloats>(row)
                                   : ComputeAdjacent<0>(row)) {
      return;
    }
  }
  AllColumns<0, 0>(row);
}

}  // namespace ios::cpu
