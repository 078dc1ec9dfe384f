#include "cc/engine/cpu/kernels/depthwise.h"

#include <algorithm>
#include <cstring>

#include "cc/core/limits.h"
#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/registers.h"
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
  int64_t pixel;                // floats between pixels
  int64_t step, stride;         // floats between cells, between windows
  int64_t columns;
  Vector bias;
  Activation::Kind activation;  // kNone, kRelu or kRelu6
  float* out;
  int64_t pitch;     // floats between pixels
  int64_t channels;  // of a pixel, where they are fewer than a vector has
  // A vector may be longer than a pixel. What it writes beyond is overwritten
  // by the pixels that follow; `whole` columns have enough of them.
  int64_t whole;
};

// Windows kWidth wide that lie side by side: a pixel is loaded once for all of
// them.
template <int kWidth, int kCount>
IOS_INLINE void Adjacent(const OutputRow& row, int64_t column, Vector* sums) {
  for (int64_t r = 0; r < row.count; ++r) {
    const float* x = row.rows[r] + column * row.pixel;
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
      Load(x + i * row.pixel, &pixel);
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
  for (int i = 0; i < kCount; ++i) sums[i] = row.bias;
  if constexpr (kWidth > 0) {
    Adjacent<kWidth, kCount>(row, column, sums);
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
  const bool adjacent = row.step == row.pixel && row.stride == row.pixel;
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
         SaturatingProduct({depthwise.ring_rows(), depthwise.vectors(),
                            depthwise.padded_width(), kLanes}) <=
             kMaxRingFloats;
}

int64_t Depthwise::vectors() const { return (channels_ + kLanes - 1) / kLanes; }

Depthwise::Ring Depthwise::RingOf(const Image& image) const {
  Ring ring;
  if (image.make) {
    ring.pixel = channels_;
    ring.vector = kLanes;
    ring.row = std::max(padded_width(), left_ + width_) * channels_;
  } else {
    ring.pixel = kLanes;
    ring.vector = padded_width() * kLanes;
    ring.row = vectors() * ring.vector;
  }
  return ring;
}

int64_t Depthwise::scratch_floats(const Image& image) const {
  // With few channels, the filter padded to whole vectors as well.
  const int64_t filter =
      channels_ < kLanes ? kernel_[0] * kernel_[1] * kLanes : 0;
  // A vector may reach beyond the last pixel of the ring, and of the row that
  // is activated.
  return ring_rows() * RingOf(image).row + kLanes + filter + row_floats() +
         kLanes;
}

void Depthwise::Run(const Image& image, const Arguments& arguments, Rows rows,
                    float* scratch) const {
  const Ring ring = RingOf(image);
  const int64_t ring_floats = ring_rows() * ring.row + kLanes;
  std::memset(scratch, 0, ring_floats * sizeof(float));
  float* free = scratch + ring_floats;

  // The columns of the image that windows reach.
  const int64_t last = std::min(width_, padded_width() - left_);
  const int64_t first = std::max<int64_t>(-left_, 0);
  InputRow input;
  input.terms = &image.terms;
  input.channels = channels_;
  input.columns = std::max<int64_t>(last - first, 0);
  input.relu = relu_;
  input.vector_step = ring.vector;

  OutputRow output;
  output.width = kernel_[1];
  output.pixel = ring.pixel;
  output.step = dilations_[1] * ring.pixel;
  output.stride = strides_[1] * ring.pixel;
  output.columns = out_width_;
  output.channels = channels_;
  const float* filter = arguments.filter;
  output.filter_step = channels_;
  if (channels_ < kLanes) {
    const int64_t cells = kernel_[0] * kernel_[1];
    std::memset(free, 0, cells * kLanes * sizeof(float));
    for (int64_t i = 0; i < cells; ++i) {
      std::memcpy(free + i * kLanes, filter + i * channels_,
                  channels_ * sizeof(float));
    }
    filter = free;
    output.filter_step = kLanes;
    free += cells * kLanes;
  }
  // What registers do not activate is activated as a row of its own.
  const bool at_once = IsInRegisters(arguments.activation);
  output.activation = at_once ? arguments.activation.kind : Activation::kNone;
  float* const row_apart = free;
  output.pitch = at_once ? arguments.output_pitch : channels_;

  // Pixels before the end of a tensor that a vector there would reach beyond.
  const int64_t beyond =
      channels_ < kLanes ? (kLanes - channels_ + channels_ - 1) / channels_ : 0;
  const int64_t pixels = images_ * height_ * width_;
  float* to = arguments.output;
  int64_t number = -1, ready = 0;  // rows of the image up to here are there
  for (int64_t row = rows.begin; row < rows.end;
       ++row, to += out_width_ * arguments.output_pitch) {
    if (row / out_height_ != number) {
      number = row / out_height_;
      ready = 0;
    }
    const int64_t y = row % out_height_ * strides_[0] - top_;
    const int64_t reach = std::min(y + ring_rows(), height_);
    for (ready = std::max({ready, y, int64_t{0}}); ready < reach; ++ready) {
      float* const ring_row = scratch + ready % ring_rows() * ring.row;
      if (image.make) {
        image.make(number, ready, ring_row + left_ * ring.pixel);
        continue;
      }
      input.pixel = (number * height_ + ready) * width_ + first;
      input.whole = pixels - beyond - input.pixel;
      input.to = ring_row + (left_ + first) * ring.pixel;
      CopyInputRow(input);
    }
    const int64_t above = y < 0 ? (-y + dilations_[0] - 1) / dilations_[0] : 0;
    output.first = above;
    output.count = 0;
    for (int64_t at = y + above * dilations_[0]; at < reach;
         at += dilations_[0]) {
      output.rows[output.count++] = scratch + at % ring_rows() * ring.row;
    }
    // Behind a row apart there is a vector's length; between pixels that are
    // not side by side, somebody else's channels are.
    output.whole = out_width_;
    if (at_once && channels_ < kLanes) {
      output.whole = output.pitch == channels_
                         ? (rows.end - row) * out_width_ - beyond
                         : 0;
    }
    int64_t reached = 0;  // by the pointers into rows
    for (int64_t v = 0; v < vectors(); ++v) {
      const int64_t channel = FirstChannel(v * kLanes, channels_);
      const int64_t place =
          image.make ? channel : v * ring.vector;  // in a row of the ring
      for (int64_t i = 0; i < output.count; ++i) {
        output.rows[i] += place - reached;
      }
      reached = place;
      output.filter = filter + channel;
      output.bias = Vector{};
      if (arguments.bias) {
        Load(arguments.bias + channel, channels_ - channel, &output.bias);
      }
      output.out = (at_once ? to : row_apart) + channel;
      ComputeRow(output);
    }
    if (at_once) continue;
    ActivateRow(row_apart, row_floats(), arguments.activation, row_apart);
    for (int64_t x = 0; x < out_width_; ++x) {
      std::memcpy(to + x * arguments.output_pitch, row_apart + x * channels_,
                  channels_ * sizeof(float));
    }
  }
}

}  // namespace ios::cpu
