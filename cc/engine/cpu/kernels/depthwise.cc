#include "cc/engine/cpu/kernels/depthwise.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "cc/core/limits.h"
#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/caches.h"
#include "cc/engine/cpu/kernels/depthwise_rows.h"
#include "cc/engine/cpu/kernels/registers.h"

namespace ios::cpu {
namespace {

constexpr int64_t kMaxRingFloats = 1024 * 1024;  // more do not fit into caches
constexpr int64_t kSets = 64, kWays = 8;         // of the L1 cache

// Several rows of the output are computed together, one vector of channels
// after another, so that a row of the image that several windows share is read
// from the L2 cache only once. The image must have at most kImageBytes, and the
// rows that are read together have about kBlockBytes.
constexpr int64_t kBlockBytes = 256 << 10;
// If the activation is not applied in registers, rows with at most this many
// vectors are computed together, so that these stay in the L1 cache.
constexpr int64_t kApartVectors = 256;

// In a larger image whose rows do not fit in the L1 cache, the windows of a
// tile of the output are computed for all channels before the next tile. So the
// image and the output are accessed almost in the order of their addresses,
// which the processor can prefetch. Wide windows would need more pixels than
// the processor follows.
constexpr int64_t kTileRows = 2, kTileColumns = 4, kTiledWidth = 3;

// The ring is used if the L1 cache cannot hold the rows of a window, and if
// each line would be loaded from the L2 cache more often than this.
constexpr int64_t kMaxLineLoads = 8;

// Returns true if the L1 cache can hold one line of each of `pixels` pixels,
// `pitch` bytes apart. If the pitch is a multiple of a large power of two, many
// of these lines compete for one set of the cache.
bool FitsInL1(int64_t pixels, int64_t pitch) {
  const int64_t sets = kSets / std::gcd(CeilDiv(pitch, kLineBytes), kSets);
  return pixels <= sets * kWays;
}

}  // namespace

template <typename T>
Depthwise<T>::Depthwise(const Operator& op, const Shape& input,
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

template <typename T>
bool Depthwise<T>::Takes(const Operator& op, const Shape& input,
                         const Shape& output) {
  const Depthwise depthwise(op, input, output);
  return op.multiplier == 1 && op.kernel[0] <= kMaxRows &&
         SaturatingProduct({depthwise.ring_rows(), depthwise.vectors(),
                            std::max(depthwise.padded_width(),
                                     depthwise.left_ + depthwise.width_),
                            kVectorFloats}) <= kMaxRingFloats;
}

template <typename T>
int64_t Depthwise<T>::vectors() const {
  return (channels_ + kVectorFloats - 1) / kVectorFloats;
}

template <typename T>
typename Depthwise<T>::Ring Depthwise<T>::RingOf(const Image& image) const {
  Ring ring;
  if (image.make) {
    ring.pixel = channels_;
    ring.vector = kVectorFloats;
    ring.row = std::max(padded_width(), left_ + width_) * channels_;
  } else {
    ring.pixel = kVectorFloats;
    ring.vector = padded_width() * kVectorFloats;
    ring.row = vectors() * ring.vector;
  }
  return ring;
}

template <typename T>
int64_t Depthwise<T>::scratch_floats(const Image& image) const {
  // If the channels do not fill a vector, Run() uses a copy of the filter that
  // is padded to whole vectors.
  const int64_t filter =
      channels_ < kVectorFloats ? kernel_[0] * kernel_[1] * kVectorFloats : 0;
  // The ring is followed by space for one vector, because a vector may reach
  // beyond its last pixel.
  return ring_rows() * RingOf(image).row + kVectorFloats + filter +
         std::max(out_width_, kApartVectors) * kVectorFloats;
}

template <typename T>
bool Depthwise<T>::ReadsDirectly(const Image& image) const {
  // The column at which the last window of a row begins.
  const int64_t last = (out_width_ - 1) * strides_[1] - left_;
  return image.terms.size() == 1 && !relu_ && channels_ >= kVectorFloats &&
         left_ < kernel_[1] && last < width_ &&
         (WindowsFitInL1(image) ||
          kernel_[0] * LineLoads(kernel_[1], strides_[1], dilations_[1]) <=
              kMaxLineLoads);
}

template <typename T>
bool Depthwise<T>::WindowsFitInL1(const Image& image) const {
  return FitsInL1(ring_rows() * width_, image.terms[0].pitch * sizeof(T));
}

// Executes one call of Run(), and stores the state that only this call needs.
template <typename T>
template <bool kDirect>
class Depthwise<T>::Walk {
  using Element = std::conditional_t<kDirect, T, float>;  // of an image row

 public:
  Walk(const Depthwise& depthwise, const Image& image,
       const Arguments& arguments, float* scratch)
      : of_(depthwise),
        image_(image),
        arguments_(arguments),
        ring_(of_.RingOf(image)),
        in_ring_(scratch),
        at_once_(IsInRegisters(arguments.activation)) {
    filter_ = InVectors(scratch + of_.ring_rows() * ring_.row + kVectorFloats,
                        &apart_);

    input_.terms = &image.terms;
    input_.channels = of_.channels_;
    // Finds the columns of the image that lie in some window.
    const int64_t last = std::min(of_.width_, of_.padded_width() - of_.left_);
    first_ = std::max<int64_t>(-of_.left_, 0);
    input_.columns = std::max<int64_t>(last - first_, 0);
    input_.relu = of_.relu_;
    input_.vector_step = ring_.vector;

    output_.width = of_.kernel_[1];
    output_.pixel = kDirect ? image.terms[0].pitch : ring_.pixel;
    output_.step = of_.dilations_[1] * output_.pixel;
    output_.stride = of_.strides_[1] * output_.pixel;
    output_.left = kDirect ? of_.left_ * output_.pixel : 0;
    output_.end = of_.width_ * output_.pixel;
    output_.columns = of_.out_width_;
    output_.channels = of_.channels_;
    output_.filter = filter_;
    output_.bias = arguments.bias;
    if (arguments.bias && of_.channels_ < kVectorFloats) {
      std::copy_n(arguments.bias, of_.channels_, padded_bias_);
      output_.bias = padded_bias_;
    }
    output_.vector_step = kDirect || image.make ? 0 : ring_.vector;
    output_.filter_step = std::max(of_.channels_, kVectorFloats);
    output_.activation =
        at_once_ ? arguments.activation.kind : Activation::kNone;
    output_.pitch = at_once_ ? arguments.output_pitch : kVectorFloats;
    output_.next_windows = of_.strides_[0] * output_.end;
    output_.next_output = of_.out_width_ * output_.pitch;
    const int64_t row_bytes = output_.end * int64_t{sizeof(T)};
    output_.tile_columns = of_.out_width_;
    const bool is_large = of_.height_ * row_bytes > kImageBytes;
    const bool shares_rows = 2 * of_.strides_[0] <= of_.kernel_[0];
    if (is_large) {
      if (kDirect && at_once_ && of_.dilations_[1] == 1 &&
          of_.kernel_[1] <= kTiledWidth && !of_.WindowsFitInL1(image)) {
        block_rows_ = kTileRows;
        output_.tile_columns = kTileColumns;
      }
    } else if (shares_rows) {
      block_rows_ = kBlockBytes / (of_.strides_[0] * row_bytes);
    }
    if (!at_once_) {
      block_rows_ = std::min(block_rows_, kApartVectors / of_.out_width_);
    }
    block_rows_ = std::max<int64_t>(block_rows_, 1);
    if constexpr (!kDirect) ClearPadding();
  }

  void Run(Rows rows) {
    if (!arguments_.use) return Compute(rows);
    while (rows.begin < rows.end) {
      const Rows some = {
          rows.begin, std::min(rows.begin + arguments_.rows_at_once, rows.end)};
      Compute(some);
      arguments_.use(some);
      rows.begin = some.end;
    }
  }

 private:
  // Computes rows of the output. Copies only the input rows that are not in the
  // ring yet.
  void Compute(const Rows& rows) {
    const int64_t height = of_.out_height_;
    T* to = arguments_.output;
    for (int64_t row = rows.begin; row < rows.end; row += output_.height) {
      if (row / height != number_) {
        number_ = row / height;
        ready_ = 0;
      }
      const int64_t y = row % height * of_.strides_[0] - of_.top_;
      const int64_t reach = std::min(y + of_.ring_rows(), of_.height_);
      if constexpr (!kDirect) {
        for (ready_ = std::max({ready_, y, int64_t{0}}); ready_ < reach;
             ++ready_) {
          FillRingRow(ready_);
        }
      }
      FindWindows(y, reach);
      if constexpr (kDirect) {
        output_.height = std::min(WholeRows(y), rows.end - row);
      }
      Write((rows.end - row) * of_.out_width_, to);
      to += output_.height * of_.out_width_ * arguments_.output_pitch;
    }
  }

  // Returns the number of rows of the output that are computed together from
  // the image, of which the first has windows that begin at row `y`. All of
  // their windows lie in the image, unless it is only one row.
  int64_t WholeRows(int64_t y) const {
    if (output_.count < of_.kernel_[0]) return 1;
    const int64_t rows = (of_.height_ - of_.ring_rows() - y) / of_.strides_[0];
    return std::min(rows + 1, block_rows_);
  }

  // Returns the filter. With few channels, this is a copy at `free`, padded to
  // whole vectors. Sets `behind` to the start of the remaining scratch memory.
  const float* InVectors(float* free, float** behind) const {
    *behind = free;
    if (of_.channels_ >= kVectorFloats) return arguments_.filter;
    const int64_t cells = of_.kernel_[0] * of_.kernel_[1];
    std::memset(free, 0, cells * kVectorFloats * sizeof(float));
    for (int64_t i = 0; i < cells; ++i) {
      std::memcpy(free + i * kVectorFloats,
                  arguments_.filter + i * of_.channels_,
                  of_.channels_ * sizeof(float));
    }
    *behind = free + cells * kVectorFloats;
    return free;
  }

  // Returns the number of pixels at the end of a tensor for which a whole
  // vector would reach beyond the tensor.
  int64_t beyond() const {
    return of_.channels_ < kVectorFloats ? (kVectorFloats - 1) / of_.channels_
                                         : 0;
  }

  // Writes zeros into the columns of the ring that no row of the image covers.
  void ClearPadding() const {
    const int64_t begin = (of_.left_ + first_) * ring_.pixel;
    const int64_t end =
        begin + (image_.make ? of_.width_ : input_.columns) * ring_.pixel;
    const int64_t step = image_.make ? ring_.row : ring_.vector;
    float* const behind = in_ring_ + of_.ring_rows() * ring_.row;
    for (float* row = in_ring_; row < behind; row += step) {
      std::fill(row, row + std::min(begin, step), 0.0f);
      std::fill(row + std::min(end, step), row + step, 0.0f);
    }
  }

  float* RingRow(int64_t y) const {
    return in_ring_ + y % of_.ring_rows() * ring_.row;
  }

  // Returns the index of the first pixel of row `y` of the current image.
  int64_t PixelOf(int64_t y) const {
    return (number_ * of_.height_ + y) * of_.width_;
  }

  // Returns row `y` of the current image, or its copy in the ring.
  const Element* ImageRow(int64_t y) const {
    if constexpr (kDirect) {
      return image_.terms[0].x + PixelOf(y) * output_.pixel;
    } else {
      return RingRow(y);
    }
  }

  // Copies row `y` of the current image into the ring, or calls Image::make to
  // write it there.
  void FillRingRow(int64_t y) {
    if (image_.make) {
      image_.make(number_, y, RingRow(y) + of_.left_ * ring_.pixel);
      return;
    }
    const int64_t pixels = of_.images_ * of_.height_ * of_.width_;
    input_.pixel = PixelOf(y) + first_;
    input_.whole = pixels - beyond() - input_.pixel;
    input_.to = RingRow(y) + (of_.left_ + first_) * ring_.pixel;
    CopyInputRow(input_);
  }

  // Finds the rows that lie both in the image and in the windows that begin at
  // row `y`.
  void FindWindows(int64_t y, int64_t reach) {
    const int64_t dilation = of_.dilations_[0];
    output_.first = y < 0 ? (-y + dilation - 1) / dilation : 0;
    output_.count = 0;
    for (int64_t at = y + output_.first * dilation; at < reach;
         at += dilation) {
      output_.rows[output_.count++] = ImageRow(at);
    }
  }

  // Writes rows of the output. `pixels` is the number of pixels from the start
  // of the first row to the end of the output.
  void Write(int64_t pixels, T* to) {
    const int64_t channels = of_.channels_;
    // In the output, whole vectors may be stored only if its pixels are
    // contiguous: otherwise the channels of other tensors lie between the
    // pixels and must not be overwritten.
    output_.whole = of_.out_width_;
    if (at_once_ && channels < kVectorFloats) {
      output_.whole = output_.pitch == channels ? pixels - beyond() : 0;
    }
    if (at_once_) {
      ComputeRow<!kDirect>(output_, 0, of_.vectors(), to);
      return;
    }
    for (int64_t v = 0; v < of_.vectors(); ++v) {
      const int64_t channel = FirstChannel(v * kVectorFloats, channels);
      ComputeRow<!kDirect>(output_, v, v + 1, apart_);
      const int64_t count = output_.height * of_.out_width_;
      ActivateRowFor<T>(apart_, count * kVectorFloats, arguments_.activation,
                        apart_);
      StoreVectors(apart_, count, std::min(kVectorFloats, channels),
                   to + channel, arguments_.output_pitch);
    }
  }

  const Depthwise& of_;
  const Image& image_;
  const Arguments& arguments_;
  const Ring ring_;
  float* const in_ring_;
  const float* filter_;
  float padded_bias_[kVectorFloats] = {};  // if the channels are few
  // True if the activation is applied in registers. Otherwise it is applied to
  // the vectors of a row of the output for the same channels, in `apart_`.
  const bool at_once_;
  float* apart_;
  int64_t block_rows_ = 1;  // of the output, if kDirect
  int64_t first_;           // first column that windows reach
  int64_t number_ = -1;     // the current image
  int64_t ready_ = 0;       // the next row of this image to be copied
  InputRow<T> input_;
  OutputRow<Element> output_;
};

template <typename T>
void Depthwise<T>::Run(const Image& image, const Arguments& arguments,
                       Rows rows, float* scratch) const {
  if (ReadsDirectly(image)) {
    Walk<true>(*this, image, arguments, scratch).Run(rows);
  } else {
    Walk<false>(*this, image, arguments, scratch).Run(rows);
  }
}

template class Depthwise<float>;
template class Depthwise<BFloat16>;

}  // namespace ios::cpu
