#include "cc/engine/cpu/kernels/elementwise.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/broadcast.h"
#include "cc/engine/cpu/kernels/float_row.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/elementwise.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

#include "cc/engine/cpu/kernels/bfloat16-inl.h"

namespace ios::cpu::IOS_TARGET {
namespace {

// Sets out[i] = activation(VALUE) for i in [0, n). A Relu is computed in the
// same loop, because it is the most common activation here. It keeps NaN, as
// TensorFlow's Relu does.
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

template <typename T>
void AddRow(const float* a, const T* b, int64_t n, Activation activation,
            float* out) {
  IOS_ROW(a[i] + ToFloat(b[i]))
}

template <typename T>
void ScaleRow(const T* __restrict x, const float* __restrict scale,
              const float* __restrict shift, int64_t n, Activation activation,
              float* __restrict out) {
  IOS_ROW(ToFloat(x[i]) * scale[i] + shift[i])
}
#undef IOS_ROW

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {

// A row is the channels of one pixel. If a row has at most this many channels,
// the call of a function for the row takes longer than the computation.
constexpr int64_t kFewChannels = 64;
// Rows with at most kFewChannels channels are therefore computed in blocks of
// several pixels. A block has at most this many elements.
constexpr int64_t kBlockSize = 1024;

// Copies the channels of a pixel.
template <typename T>
void CopyChannels(const T* from, int64_t channels, T* to) {
  // The call of memcpy takes longer than copying a few elements.
  constexpr int64_t kFewBytes = 64;
  if (channels * static_cast<int64_t>(sizeof(T)) >= kFewBytes) {
    std::memcpy(to, from, channels * sizeof(T));
    return;
  }
  for (int64_t c = 0; c < channels; ++c) to[c] = from[c];
}

// Repeated and PixelBlock are not in the unnamed namespace, because templates
// with other names use them in lambdas.

// Repeats the values of the channels for several pixels, so that loops are long
// even if there are few channels.
class Repeated {
 public:
  static constexpr int64_t kFloats = 1024;

  template <typename T>
  Repeated(const T* values, int64_t count) : times_(kFloats / count) {
    if (times_ > 0) Widen(values, count, values_);
    for (int64_t i = 1; i < times_; ++i) {
      std::memcpy(values_ + i * count, values_, count * sizeof(float));
    }
  }
  int64_t times() const { return times_; }
  const float* data() const { return values_; }

 private:
  const int64_t times_;
  alignas(64) float values_[kFloats];
};

// Several pixels of a tensor with few channels.
template <typename T>
class PixelBlock {
 public:
  // Returns the address of `pixels` contiguous pixels that begin with `pixel`,
  // which are copied if they are not contiguous. If the tensor has only one
  // channel, its value is repeated for all `channels`.
  const T* Gather(const SourceOf<T>& from, int64_t pixel, int64_t pixels,
                  int64_t channels) {
    const T* x = At(from, pixel, 0);
    const bool spreads = from.view.channels() < channels;
    if (!spreads && from.view.dense()) return x;
    T* out = copy_;
    for (int64_t p = 0; p < pixels; ++p, x += from.view.pitch) {
      if (spreads) {
        std::fill_n(out, channels, *x);
      } else {
        CopyChannels(x, channels, out);
      }
      out += channels;
    }
    return copy_;
  }
  // Returns the address of the same pixels in float32.
  const float* Read(const SourceOf<T>& from, int64_t pixel, int64_t pixels,
                    int64_t channels) {
    return row_.Read(Gather(from, pixel, pixels, channels), pixels * channels);
  }

 private:
  T copy_[kBlockSize];
  FloatRow<T> row_;
};

static_assert(kBlockSize <= FloatRow<BFloat16>::kMost &&
              Repeated::kFloats <= FloatRow<BFloat16>::kMost);

namespace {

// Returns true if Repeated makes the loops for this number of channels faster.
bool IsRepeated(int64_t channels) {
  return channels > 0 && channels <= Repeated::kFloats / 4;
}

bool HasFewChannels(const TensorView& to) {
  return to.channels() > 0 && to.channels() <= kFewChannels;
}

// Computes `to`, which has few channels, in blocks of at most kBlockSize
// elements. For each block, block(first pixel, number of pixels, out) must
// write the result to `out`, which is then copied into `to`.
template <typename T, typename Block>
void ForBlocks(const TargetOf<T>& to, Block&& block) {
  const int64_t channels = to.view.channels();
  ParallelFor(to.view.pixels(), kGrainFloats / channels,
              [&](int64_t begin, int64_t end) {
                FloatRow<T> row;
                T scratch[kBlockSize];
                for (int64_t pixels; begin < end; begin += pixels) {
                  pixels = std::min(kBlockSize / channels, end - begin);
                  const int64_t n = pixels * channels;
                  T* out = At(to, begin, 0);
                  T* const dense = to.view.dense() ? out : scratch;
                  block(begin, pixels, row.Begin(dense));
                  row.Finish(n, dense);
                  if (dense == out) continue;
                  const T* x = scratch;
                  for (int64_t p = 0; p < pixels; ++p, out += to.view.pitch) {
                    CopyChannels(x, channels, out);
                    x += channels;
                  }
                }
              });
}

}  // namespace

template <typename T>
void Copy(const SourceOf<T>& from, const TargetOf<T>& to) {
  const bool dense = from.view.dense() && to.view.dense();
  ForRows<float>(to.view.pixels(), to.view.channels(), dense,
                 [&](int64_t p, int64_t c, int64_t n) {
                   std::memcpy(At(to, p, c), At(from, p, c), n * sizeof(T));
                 });
}

template <typename T>
void Activate(const SourceOf<T>& x, Activation activation,
              const TargetOf<T>& to) {
  const int64_t channels = to.view.channels();
  const bool dense = x.view.dense() && to.view.dense();
  if (!dense && HasFewChannels(to.view)) {
    return ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
      PixelBlock<T> block;
      ActivateRowFor<T>(block.Read(x, p, pixels, channels), pixels * channels,
                        activation, out);
    });
  }
  ForRows<T>(to.view.pixels(), channels, dense,
             [&](int64_t p, int64_t c, int64_t n) {
               FloatRow<T> row;
               T* const out = At(to, p, c);
               ActivateRowFor<T>(row.Read(At(x, p, c), n), n, activation,
                                 row.Begin(out));
               row.Finish(n, out);
             });
}

// Adds n elements of each term. `first` has the elements of the first term.
// other(term) returns the address of another term's elements.
template <typename T, typename Other>
void AddTerms(const float* first, size_t terms, int64_t n,
              const Activation& activation, float* out, const Other& other) {
  for (size_t t = 1; t < terms; ++t) {
    IOS_DISPATCH(AddRow<T>)
    (t == 1 ? first : out, other(t), n,
     t + 1 == terms ? activation : Activation::kNone, out);
  }
}

template <typename T>
void Add(const std::vector<SourceOf<T>>& terms, Activation activation,
         const TargetOf<T>& to) {
  const int64_t channels = to.view.channels();
  bool dense = to.view.dense();
  for (const SourceOf<T>& term : terms) dense = dense && term.view.dense();
  if (!dense && HasFewChannels(to.view)) {
    return ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
      PixelBlock<T> first, other;
      AddTerms<T>(first.Read(terms[0], p, pixels, channels), terms.size(),
                  pixels * channels, activation, out, [&](size_t t) {
                    return other.Gather(terms[t], p, pixels, channels);
                  });
    });
  }
  ForRows<T>(to.view.pixels(), channels, dense,
             [&](int64_t p, int64_t c, int64_t n) {
               FloatRow<T> sum;
               T* const out = At(to, p, c);
               AddTerms<T>(sum.Read(At(terms[0], p, c), n), terms.size(), n,
                           activation, sum.Begin(out),
                           [&](size_t t) { return At(terms[t], p, c); });
               sum.Finish(n, out);
             });
}

// Computes a row of a binary function and its activation.
void ActivatedBinaryRow(BinaryFunction function, const RowOperand& x,
                        const RowOperand& y, const Activation& activation,
                        int64_t n, float* out) {
  BinaryRow(function, x, y, n, out);
  if (activation != Activation::kNone) ActivateRow(out, n, activation, out);
}

// Returns true if BinaryPerChannel supports the operands: `y` has one value for
// each channel, either of each image or of all images.
bool IsPerChannel(const TensorView& x, const TensorView& y,
                  const TensorView& to) {
  const Shape& shape = y.shape;
  return shape.size() == 4 && x.shape == to.shape && x.dense() && to.dense() &&
         shape[1] == 1 && shape[2] == 1 && shape[3] == to.shape[3] &&
         IsRepeated(shape[3]) && NumElements(to.shape) > 0;
}

template <typename X, typename Y, typename T>
void BinaryPerChannel(BinaryFunction function, const SourceOf<X>& x,
                      const SourceOf<Y>& y, Activation activation,
                      const TargetOf<T>& to) {
  const int64_t channels = to.view.channels();
  const int64_t per_image = to.view.shape[1] * to.view.shape[2];
  const int64_t step = y.view.shape[0] == 1 ? 0 : y.view.pitch;
  ParallelFor(to.view.pixels(), kGrainFloats / channels,
              [&](int64_t begin, int64_t end) {
                FloatRow<X> row;
                FloatRow<T> result;
                while (begin < end) {
                  const int64_t image = begin / per_image;
                  const int64_t last = std::min((image + 1) * per_image, end);
                  const Repeated operand(y.data + image * step, channels);
                  for (; begin < last; begin += operand.times()) {
                    const int64_t n =
                        std::min(operand.times(), last - begin) * channels;
                    T* const out = At(to, begin, 0);
                    ActivatedBinaryRow(function, {row.Read(At(x, begin, 0), n)},
                                       {operand.data()}, activation, n,
                                       result.Begin(out));
                    result.Finish(n, out);
                  }
                  begin = last;
                }
              });
}

// Returns true if BinaryOfBlocks should compute the operands: the tensors have
// few channels, and the rows of Binary() would each have only one pixel,
// because a tensor is pitched or an operand has one channel that is broadcast.
bool IsOfBlocks(const TensorView& x, const TensorView& y,
                const TensorView& to) {
  const Shape& shape = to.shape;
  if (shape.size() != 4 || !HasFewChannels(to)) return false;
  bool dense = to.dense();
  for (const TensorView* view : {&x, &y}) {
    const Shape& own = view->shape;
    if (own != shape && own != Shape{shape[0], shape[1], shape[2], 1}) {
      return false;
    }
    dense = dense && view->dense() && own == shape;
  }
  return !dense;
}

template <typename X, typename Y, typename T>
void BinaryOfBlocks(BinaryFunction function, const SourceOf<X>& x,
                    const SourceOf<Y>& y, Activation activation,
                    const TargetOf<T>& to) {
  const int64_t channels = to.view.channels();
  ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
    PixelBlock<X> xs;
    PixelBlock<Y> ys;
    ActivatedBinaryRow(function, {xs.Read(x, p, pixels, channels)},
                       {ys.Read(y, p, pixels, channels)}, activation,
                       pixels * channels, out);
  });
}

template <typename X, typename Y, typename T>
void Binary(BinaryFunction function, const SourceOf<X>& x, const SourceOf<Y>& y,
            Activation activation, const TargetOf<T>& to) {
  if (IsPerChannel(x.view, y.view, to.view)) {
    return BinaryPerChannel(function, x, y, activation, to);
  }
  if (IsOfBlocks(x.view, y.view, to.view)) {
    return BinaryOfBlocks(function, x, y, activation, to);
  }
  constexpr int64_t kMost = FloatRow<T>::kMost;
  const BroadcastRows rows(x.view, y.view, to.view);
  const int64_t pieces = (rows.length() + kMost - 1) / kMost;
  ParallelFor(
      rows.count() * pieces,
      std::max<int64_t>(
          1, kGrainFloats / std::clamp<int64_t>(rows.length(), 1, kMost)),
      [&](int64_t begin, int64_t end) {
        FloatRow<X> xs;
        FloatRow<Y> ys;
        FloatRow<T> result;
        BroadcastRows::Row row = rows.At(begin / pieces);
        int64_t piece = begin % pieces;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = piece * kMost;
          const int64_t n = std::min(kMost, rows.length() - first);
          // Reads n elements, or the one element that the whole row uses.
          const auto read = [&](auto* floats, const auto* data,
                                int64_t step) -> RowOperand {
            return {floats->Read(data + first * step, step == 0 ? 1 : n), step};
          };
          T* const out = to.data + row.to + first;
          ActivatedBinaryRow(function, read(&xs, x.data + row.x, rows.x_step()),
                             read(&ys, y.data + row.y, rows.y_step()),
                             activation, n, result.Begin(out));
          result.Finish(n, out);
          if (++piece == pieces) {
            piece = 0;
            rows.Advance(&row);
          }
        }
      });
}

template <typename T>
void Scale(const SourceOf<T>& x, const float* scale, const float* shift,
           Activation activation, const TargetOf<T>& to) {
  const int64_t channels = to.view.channels();
  // Computes n elements that begin with a pixel's channel c.
  const auto row = [&](int64_t p, int64_t c, int64_t n, const float* scales,
                       const float* shifts) {
    FloatRow<T> result;
    T* const out = At(to, p, c);
    IOS_DISPATCH(ScaleRow<T>)
    (At(x, p, c), scales, shifts, n, activation, result.Begin(out));
    result.Finish(n, out);
  };
  if (x.view.dense() && to.view.dense() && IsRepeated(channels)) {
    ParallelFor(
        to.view.pixels(), kGrainFloats / channels,
        [&](int64_t begin, int64_t end) {
          const Repeated scales(scale, channels);
          const Repeated shifts(shift, channels);
          for (; begin < end; begin += scales.times()) {
            const int64_t pixels = std::min(scales.times(), end - begin);
            row(begin, 0, pixels * channels, scales.data(), shifts.data());
          }
        });
    return;
  }
  if (HasFewChannels(to.view)) {
    const Repeated scales(scale, channels), shifts(shift, channels);
    return ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
      PixelBlock<T> block;
      IOS_DISPATCH(ScaleRow<T>)
      (block.Gather(x, p, pixels, channels), scales.data(), shifts.data(),
       pixels * channels, activation, out);
    });
  }
  ForRows<T>(to.view.pixels(), channels, /*dense=*/false,
             [&](int64_t p, int64_t c, int64_t n) {
               row(p, c, n, scale + c, shift + c);
             });
}

// Both operands of Binary have type T, or one of them is a constant in float32.
#define IOS_INSTANTIATE(T)                                                     \
  template void Copy(const SourceOf<T>&, const TargetOf<T>&);                  \
  template void Activate(const SourceOf<T>&, Activation, const TargetOf<T>&);  \
  template void Add(const std::vector<SourceOf<T>>&, Activation,               \
                    const TargetOf<T>&);                                       \
  template void Binary(BinaryFunction, const SourceOf<T>&, const SourceOf<T>&, \
                       Activation, const TargetOf<T>&);                        \
  template void Scale(const SourceOf<T>&, const float*, const float*,          \
                      Activation, const TargetOf<T>&);
IOS_INSTANTIATE(float)
IOS_INSTANTIATE(BFloat16)
#undef IOS_INSTANTIATE
template void Binary(BinaryFunction, const Source&, const SourceOf<BFloat16>&,
                     Activation, const TargetOf<BFloat16>&);
template void Binary(BinaryFunction, const SourceOf<BFloat16>&, const Source&,
                     Activation, const TargetOf<BFloat16>&);

}  // namespace ios::cpu

#endif  // IOS_TARGET
