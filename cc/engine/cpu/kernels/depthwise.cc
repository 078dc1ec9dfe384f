#include "cc/engine/cpu/kernels/depthwise.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/kernels/vectorized.h"

namespace ios::cpu {
namespace {

constexpr int64_t kLanes = 16;
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t Mask __attribute__((vector_size(kLanes * sizeof(float))));

constexpr int64_t kMaxRows = 16;                 // of a window
constexpr int64_t kMaxRingFloats = 1024 * 1024;  // beyond caches

IOS_INLINE void Load(const float* from, Vector* v) {
  std::memcpy(v, from, sizeof(Vector));
}

// Where the vector that would begin at `channel` does: the last one overlaps
// the one before it.
IOS_INLINE int64_t FirstChannel(int64_t channel, int64_t channels) {
  return std::max<int64_t>(std::min(channel, channels - kLanes), 0);
}

// One row of the image on its way into the ring: [W,C] to [vectors, padded W].
struct InputRow {
  const std::vector<Depthwise::Term>* terms;
  int64_t pixel;  // the first, of the terms'
  int64_t channels;
  int64_t columns;  // that are copied
  int64_t whole;    // of these, behind which there is a vector's length to read
  bool relu;
  float* to;            // of the first of these columns
  int64_t vector_step;  // floats
};

template <bool kRelu>
IOS_INLINE void Keep(Vector* values, float* to) {
  if (kRelu) *values = *values < 0.0f ? Vector{} : *values;  // keeps NaN
  std::memcpy(to, values, sizeof(Vector));
}

// The sum of kTerms terms, or of all there are for 0, from a channel of a pixel
// on.
template <int kTerms>
IOS_INLINE Vector SumAt(const Depthwise::Term* terms, int64_t count,
                        int64_t pixel, int64_t channel) {
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
  const Depthwise::Term* terms = row.terms->data();
  const int64_t count = row.terms->size(), channels = row.channels;
  Vector values;
  if (channels >= kLanes) {
    for (int64_t i = 0; i < row.columns; ++i) {
      const int64_t pixel = row.pixel + i;
      float* to = row.to + i * kLanes;
      Depthwise::Term here[kTerms > 0 ? kTerms : 1];
      for (int t = 0; t < kTerms; ++t) {
        here[t] = {terms[t].x + pixel * terms[t].pitch, 0};
      }
      const Depthwise::Term* from = kTerms > 0 ? here : terms;
      int64_t c = 0;
      for (; c + kLanes <= channels; c += kLanes, to += row.vector_step) {
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
  for (int64_t c = 0; c < kLanes; ++c) mask[c] = c < channels ? -1 : 0;
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
    Keep<kRelu>(&values, row.to + i * kLanes);
  }
}

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

// One row of the output, one vector of channels.
struct OutputRow {
  const float* rows[kMaxRows];  // of the ring, of this vector, in the image
  int64_t first, count;         // rows of the window that are in the image
  const float* filter;          // of this vector
  int64_t filter_step;          // floats between cells
  int64_t width;                // of the window
  int64_t step, stride;         // floats between cells, between windows
  int64_t columns;
  float* out;
  int64_t pitch;  // floats between pixels
  // A vector may be longer than a pixel. What it writes beyond is overwritten
  // by the pixels that follow; `whole` columns have enough of them.
  int64_t whole;
};

// Windows kWidth wide that lie side by side: a pixel is loaded once for all of
// them.
template <int kWidth, int kCount>
IOS_INLINE void Adjacent(const OutputRow& row, int64_t column, Vector* sums) {
  for (int64_t r = 0; r < row.count; ++r) {
    const float* x = row.rows[r] + column * kLanes;
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
      Load(x + i * kLanes, &pixel);
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
template <int kWidth, int kCount>
IOS_INLINE void Columns(const OutputRow& row, int64_t column) {
  Vector sums[kCount];
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) sums[i] = Vector{};
  if constexpr (kWidth > 0) {
    Adjacent<kWidth, kCount>(row, column, sums);
  } else {
    Apart<kCount>(row, column, sums);
  }
  float* out = row.out + column * row.pitch;
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    if (column + i < row.whole) {
      std::memcpy(out + i * row.pitch, &sums[i], sizeof(Vector));
    } else {
      for (int64_t c = 0; c < row.pitch; ++c)
        out[i * row.pitch + c] = sums[i][c];
    }
  }
}

template <int kWidth>
IOS_INLINE void AllColumns(const OutputRow& row) {
  int64_t column = 0;
  for (; column + 8 <= row.columns; column += 8)
    Columns<kWidth, 8>(row, column);
  switch (row.columns - column) {
    case 7:
      return Columns<kWidth, 7>(row, column);
    case 6:
      return Columns<kWidth, 6>(row, column);
    case 5:
      return Columns<kWidth, 5>(row, column);
    case 4:
      return Columns<kWidth, 4>(row, column);
    case 3:
      return Columns<kWidth, 3>(row, column);
    case 2:
      return Columns<kWidth, 2>(row, column);
    case 1:
      return Columns<kWidth, 1>(row, column);
  }
}

IOS_VECTORIZED void ComputeRow(const OutputRow& row) {
  const bool adjacent = row.step == kLanes && row.stride == kLanes;
  if (adjacent && row.width == 3) return AllColumns<3>(row);
  if (adjacent && row.width == 5) return AllColumns<5>(row);
  if (adjacent && row.width == 7) return AllColumns<7>(row);
  AllColumns<0>(row);
}

}  // namespace

Depthwise::Depthwise(const Operator& op, const Shape& input,
                     const Shape& output)
    : images_(input[0]),
      height_(input[1]),
      width_(input[2]),
      channels_(input[3]),
      out_height_(output[1]),
      out_width_(output[2]),
      kernel_(op.kernel),
      strides_(op.strides),
      dilations_(op.dilations),
      relu_(op.pre_activation == Activation::kRelu) {
  const std::array<int64_t, 4> pad = ExplicitPadding(op, input);
  top_ = pad[0];
  left_ = pad[2];
}

bool Depthwise::Takes(const Operator& op, const Shape& input,
                      const Shape& output) {
  const Depthwise depthwise(op, input, output);
  return op.multiplier == 1 && op.kernel[0] <= kMaxRows &&
         depthwise.scratch_floats() <= kMaxRingFloats;
}

int64_t Depthwise::vectors() const { return (channels_ + kLanes - 1) / kLanes; }

int64_t Depthwise::scratch_floats() const {
  // With few channels, the filter padded to whole vectors as well.
  const int64_t filter =
      channels_ < kLanes ? kernel_[0] * kernel_[1] * kLanes : 0;
  return ring_rows() * vectors() * padded_width() * kLanes + filter;
}

void Depthwise::Run(const std::vector<Term>& terms, const float* filter,
                    Rows rows, float* to, float* scratch) const {
  const int64_t vector_step = padded_width() * kLanes;
  const int64_t ring_step = vectors() * vector_step;
  std::memset(scratch, 0, ring_rows() * ring_step * sizeof(float));

  // The columns of the image that windows reach.
  const int64_t last = std::min(width_, padded_width() - left_);
  const int64_t first = std::max<int64_t>(-left_, 0);
  InputRow input;
  input.terms = &terms;
  input.channels = channels_;
  input.columns = std::max<int64_t>(last - first, 0);
  input.relu = relu_;
  input.vector_step = vector_step;

  OutputRow output;
  output.width = kernel_[1];
  output.step = dilations_[1] * kLanes;
  output.stride = strides_[1] * kLanes;
  output.columns = out_width_;
  output.pitch = channels_;
  output.filter_step = channels_;
  if (channels_ < kLanes) {
    float* padded = scratch + ring_rows() * ring_step;
    const int64_t cells = kernel_[0] * kernel_[1];
    std::memset(padded, 0, cells * kLanes * sizeof(float));
    for (int64_t i = 0; i < cells; ++i) {
      std::memcpy(padded + i * kLanes, filter + i * channels_,
                  channels_ * sizeof(float));
    }
    filter = padded;
    output.filter_step = kLanes;
  }

  // Pixels before the end of a tensor that a vector there would reach beyond.
  const int64_t beyond =
      channels_ < kLanes ? (kLanes - channels_ + channels_ - 1) / channels_ : 0;
  const int64_t pixels = images_ * height_ * width_;
  int64_t image = -1, ready = 0;  // rows of the image up to here were copied
  for (int64_t row = rows.begin; row < rows.end; ++row, to += row_floats()) {
    if (row / out_height_ != image) {
      image = row / out_height_;
      ready = 0;
    }
    const int64_t y = row % out_height_ * strides_[0] - top_;
    const int64_t reach = std::min(y + ring_rows(), height_);
    for (ready = std::max({ready, y, int64_t{0}}); ready < reach; ++ready) {
      const int64_t pixel = (image * height_ + ready) * width_ + first;
      input.pixel = pixel;
      input.whole = pixels - beyond - pixel;
      input.to =
          scratch + ready % ring_rows() * ring_step + (left_ + first) * kLanes;
      CopyInputRow(input);
    }
    output.first = y < 0 ? (-y + dilations_[0] - 1) / dilations_[0] : 0;
    output.count = 0;
    for (int64_t at = y + output.first * dilations_[0]; at < reach;
         at += dilations_[0]) {
      output.rows[output.count++] = scratch + at % ring_rows() * ring_step;
    }
    output.whole = (rows.end - row) * out_width_ - beyond;
    for (int64_t v = 0; v < vectors(); ++v) {
      const int64_t channel = FirstChannel(v * kLanes, channels_);
      output.filter = filter + channel;
      output.out = to + channel;
      ComputeRow(output);
      for (int64_t i = 0; i < output.count; ++i) output.rows[i] += vector_step;
    }
  }
}

}  // namespace ios::cpu
