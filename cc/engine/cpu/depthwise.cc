#include "cc/engine/cpu/depthwise.h"

#include <algorithm>
#include <cstring>

#include "cc/engine/cpu/vectorized.h"

#define IOS_INLINE inline __attribute__((always_inline))

namespace ios::cpu {
namespace {

constexpr int64_t kLanes = 16;
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));

// Output columns computed together, which share the loads of the filter.
constexpr int kColumns = 4;

// Some output columns of one row: where their windows begin and the part of the
// filter that lies inside of the image.
struct Windows {
  const float* x;       // the first window's first pixel
  const float* filter;  // [.., kernel width, C]
  int64_t rows, columns;          // of the window, inside
  int64_t row_step, column_step;  // between pixels of the window, floats
  int64_t stride;                 // between windows, floats
  int64_t filter_row;             // floats
  int64_t channels;
};

IOS_INLINE void Load(const float* from, Vector* v) {
  std::memcpy(v, from, sizeof(Vector));
}

template <bool kRelu>
IOS_INLINE void LoadInput(const float* from, Vector* v) {
  Load(from, v);
  if (kRelu) *v = *v > 0.0f ? *v : Vector{};
}

// Neighbouring windows of stride and dilation 1 share their pixels: each is loaded
// once for a row of the filter.
template <bool kRelu, int kWidth, int kCount>
IOS_INLINE void Adjacent(const Windows& w, int64_t c, Vector* sums) {
  for (int64_t row = 0; row < w.rows; ++row) {
    const float* x = w.x + row * w.row_step + c;
    const float* filter = w.filter + row * w.filter_row + c;
    Vector pixels[kWidth + kCount - 1];
    for (int i = 0; i < kWidth + kCount - 1; ++i) {
      LoadInput<kRelu>(x + i * w.column_step, &pixels[i]);
    }
    for (int k = 0; k < kWidth; ++k) {
      Vector factor;
      Load(filter + k * w.channels, &factor);
      for (int i = 0; i < kCount; ++i) sums[i] += pixels[i + k] * factor;
    }
  }
}

template <bool kRelu, int kCount>
IOS_INLINE void Apart(const Windows& w, int64_t c, Vector* sums) {
  for (int64_t row = 0; row < w.rows; ++row) {
    const float* x = w.x + row * w.row_step + c;
    const float* filter = w.filter + row * w.filter_row + c;
    for (int64_t k = 0; k < w.columns; ++k) {
      Vector factor;
      Load(filter + k * w.channels, &factor);
      for (int i = 0; i < kCount; ++i) {
        Vector pixel;
        LoadInput<kRelu>(x + k * w.column_step + i * w.stride, &pixel);
        sums[i] += pixel * factor;
      }
    }
  }
}

template <bool kRelu, int kWidth, int kCount>
IOS_INLINE void Columns(const Windows& w, float* out) {
  for (int64_t c = 0; c < w.channels; c += kLanes) {
    // The last vector of channels overlaps the one before it.
    const int64_t first = std::min(c, w.channels - kLanes);
    Vector sums[kCount] = {};
    if constexpr (kWidth > 0) {
      Adjacent<kRelu, kWidth, kCount>(w, first, sums);
    } else {
      Apart<kRelu, kCount>(w, first, sums);
    }
    for (int i = 0; i < kCount; ++i) {
      std::memcpy(out + i * w.channels + first, &sums[i], sizeof(Vector));
    }
  }
}

// `count` columns whose windows are inside of the image from side to side.
// kWidth is the filter's, or 0 where windows are not Adjacent.
template <bool kRelu, int kWidth>
IOS_INLINE void Inside(Windows w, int64_t count, float* out) {
  for (; count >= kColumns; count -= kColumns) {
    Columns<kRelu, kWidth, kColumns>(w, out);
    w.x += kColumns * w.stride;
    out += kColumns * w.channels;
  }
  for (; count > 0; --count) {
    Columns<kRelu, kWidth, 1>(w, out);
    w.x += w.stride;
    out += w.channels;
  }
}

template <bool kRelu>
IOS_INLINE void InsideColumns(const Windows& w, int64_t count, float* out) {
  const bool adjacent = w.stride == w.column_step;
  if (adjacent && w.columns == 3) {
    Inside<kRelu, 3>(w, count, out);
  } else if (adjacent && w.columns == 5) {
    Inside<kRelu, 5>(w, count, out);
  } else if (adjacent && w.columns == 7) {
    Inside<kRelu, 7>(w, count, out);
  } else {
    Inside<kRelu, 0>(w, count, out);
  }
}

IOS_VECTORIZED void ReluColumns(const Windows& w, int64_t count, float* out) {
  InsideColumns<true>(w, count, out);
}
IOS_VECTORIZED void PlainColumns(const Windows& w, int64_t count, float* out) {
  InsideColumns<false>(w, count, out);
}

// The cells [first, end) of a filter of `size` that lie inside of [0, length),
// its cell 0 being at `start`.
struct Cells {
  Cells(int64_t start, int64_t size, int64_t dilation, int64_t length)
      : first(start < 0 ? (-start + dilation - 1) / dilation : 0),
        end(std::min(size, start < length
                               ? (length - start + dilation - 1) / dilation
                               : 0)) {
    if (first > end) first = end;
  }
  int64_t first, end;
};

}  // namespace

Depthwise::Depthwise(const Operator& op, const Shape& input,
                     const Shape& output)
    : images(input[0]),
      height(input[1]),
      width(input[2]),
      channels(input[3]),
      out_height(output[1]),
      out_width(output[2]),
      kernel(op.kernel),
      strides(op.strides),
      dilations(op.dilations),
      relu(op.pre_activation == Activation::kRelu) {
  const std::array<int64_t, 4> pad = ExplicitPadding(op, input);
  top = pad[0];
  left = pad[2];
}

bool Depthwise::Takes(const Operator& op, const Shape& input) {
  return op.multiplier == 1 && input[3] >= kLanes;
}

void Depthwise::Run(const float* x, int64_t pitch, const float* filter,
                    int64_t begin, int64_t end, float* to) const {
  Windows w;
  w.row_step = dilations[0] * width * pitch;
  w.column_step = dilations[1] * pitch;
  w.stride = strides[1] * pitch;
  w.filter_row = kernel[1] * channels;
  w.channels = channels;
  const auto run = relu ? ReluColumns : PlainColumns;
  for (int64_t row = begin; row < end; ++row, to += row_floats()) {
    const int64_t y = row % out_height * strides[0] - top;
    const Cells rows(y, kernel[0], dilations[0], height);
    w.rows = rows.end - rows.first;
    const int64_t first = row / out_height * height + y + rows.first * dilations[0];
    const float* filter_row = filter + rows.first * w.filter_row;
    for (int64_t column = 0; column < out_width;) {
      const int64_t at = column * strides[1] - left;
      const Cells columns(at, kernel[1], dilations[1], width);
      w.columns = columns.end - columns.first;
      w.x = x + (first * width + at + columns.first * dilations[1]) * pitch;
      w.filter = filter_row + columns.first * channels;
      int64_t count = 1;
      if (w.columns == kernel[1]) {
        const int64_t last = width - 1 - (kernel[1] - 1) * dilations[1];
        count = std::min(out_width - column, (last - at) / strides[1] + 1);
      }
      run(w, count, to + column * channels);
      column += count;
    }
  }
}

}  // namespace ios::cpu
