#include "cc/engine/cpu/kernels/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/bfloat16.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/resize.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// Computes a row of the output from two rows of the input. Pixels of `to` are
// `pitch` elements apart. `columns` gives offsets in elements.
template <typename T>
void InterpolateRow(const T* top, const T* bottom, float weight,
                    const ImageResize::Cells* columns, int64_t width,
                    int64_t channels, T* to, int64_t pitch) {
  for (int64_t w = 0; w < width; ++w) {
    const ImageResize::Cells& column = columns[w];
    const T* top_left = top + column.lower;
    const T* top_right = top + column.upper;
    const T* bottom_left = bottom + column.lower;
    const T* bottom_right = bottom + column.upper;
    T* __restrict out = to + w * pitch;
    const auto interpolate = [&](float a, float b, float c, float d) {
      const float above = a + (b - a) * column.weight;
      const float below = c + (d - c) * column.weight;
      return above + (below - above) * weight;
    };
    int64_t c = 0;
    if constexpr (sizeof(T) == sizeof(BFloat16)) {
      for (; c + 2 <= channels; c += 2) {
        const TwoFloats a = ToFloats(top_left + c), b = ToFloats(top_right + c);
        const TwoFloats d = ToFloats(bottom_left + c),
                        e = ToFloats(bottom_right + c);
        Put(TwoFloats{interpolate(a.first, b.first, d.first, e.first),
                      interpolate(a.second, b.second, d.second, e.second)},
            out + c);
      }
    }
    for (; c < channels; ++c) {
      Put(interpolate(ToFloat(top_left[c]), ToFloat(top_right[c]),
                      ToFloat(bottom_left[c]), ToFloat(bottom_right[c])),
          out + c);
    }
  }
}

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

// Returns the input cells of each output cell, computed with TensorFlow's
// arithmetic, so that rounding selects the same cells.
std::vector<ImageResize::Cells> CellsOf(const Operator& op, int64_t input,
                                        int64_t output) {
  const float scale = ResizeScale(op.coordinates, input, output);
  const bool half_pixel = op.coordinates == Coordinates::kHalfPixel;
  std::vector<ImageResize::Cells> cells(output);
  for (int64_t i = 0; i < output; ++i) {
    const float center = half_pixel ? i + 0.5f : static_cast<float>(i);
    float at = center * scale;
    if (op.interpolation == Interpolation::kNearest) {
      at = op.coordinates == Coordinates::kAlignCorners ? std::round(at)
                                                        : std::floor(at);
      const int64_t nearest =
          std::clamp<int64_t>(static_cast<int64_t>(at), 0, input - 1);
      cells[i] = {nearest, nearest, 0.0f};
    } else {
      if (half_pixel) at -= 0.5f;
      const float floor = std::floor(at);
      cells[i] = {
          std::max<int64_t>(static_cast<int64_t>(floor), 0),
          std::min<int64_t>(static_cast<int64_t>(std::ceil(at)), input - 1),
          at - floor};
    }
  }
  return cells;
}

}  // namespace

// An image whose size does not change is copied, as in TensorFlow's CPU kernel.
// Interpolation would turn infinities into NaN.
ImageResize::ImageResize(const Operator& op, const TensorView& x,
                         const TensorView& to)
    : copies_(op.interpolation == Interpolation::kNearest ||
              x.shape == to.shape),
      rows_(CellsOf(op, x.shape[1], to.shape[1])),
      columns_(CellsOf(op, x.shape[2], to.shape[2])) {
  for (Cells& column : columns_) {
    column.lower *= x.pitch;
    column.upper *= x.pitch;
  }
}

template <typename T>
void ImageResize::Run(const SourceOf<T>& x, const TargetOf<T>& to) const {
  const int64_t height = to.view.shape[1], width = to.view.shape[2];
  const int64_t channels = to.view.channels(), pitch = to.view.pitch;
  const int64_t input_row = x.view.shape[2] * x.view.pitch;
  const int64_t grain = std::max<int64_t>(
      1, kGrainFloats / std::max<int64_t>(1, width * channels));
  ParallelFor(
      to.view.shape[0] * height, grain, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const Cells& cells = rows_[row % height];
          const T* image = x.data + row / height * x.view.shape[1] * input_row;
          const T* top = image + cells.lower * input_row;
          T* out = to.data + row * width * pitch;
          if (!copies_) {
            IOS_DISPATCH(InterpolateRow<T>)
            (top, image + cells.upper * input_row, cells.weight,
             columns_.data(), width, channels, out, pitch);
            continue;
          }
          for (int64_t w = 0; w < width; ++w) {
            std::memcpy(out + w * pitch, top + columns_[w].lower,
                        channels * sizeof(T));
          }
        }
      });
}

#define IOS_INSTANTIATE(T) \
  template void ImageResize::Run(const SourceOf<T>&, const TargetOf<T>&) const;
IOS_INSTANTIATE(float)
IOS_INSTANTIATE(BFloat16)
#undef IOS_INSTANTIATE

}  // namespace ios::cpu

#endif  // IOS_TARGET
