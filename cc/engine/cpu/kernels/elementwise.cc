#include "cc/engine/cpu/kernels/elementwise.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/broadcast.h"
#include "cc/engine/cpu/threads/lanes.h"

#define IOS_KERNEL_SOURCE "cc/engine/cpu/kernels/elementwise.cc"
#include "cc/engine/cpu/kernels/foreach_target.h"

#ifdef IOS_TARGET  // compiled for each instruction set

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

void AddRow(const float* a, const float* b, int64_t n, Activation activation,
            float* out) {
  IOS_ROW(a[i] + b[i])
}

void ScaleRow(const float* __restrict x, const float* __restrict scale,
              const float* __restrict shift, int64_t n, Activation activation,
              float* __restrict out) {
  IOS_ROW(x[i] * scale[i] + shift[i])
}
#undef IOS_ROW

}  // namespace
}  // namespace ios::cpu::IOS_TARGET

#else  // compiled once

namespace ios::cpu {
namespace {

// Repeats the values of the channels for several pixels, so that loops are long
// even if there are few channels.
class Repeated {
 public:
  static constexpr int64_t kFloats = 1024;

  Repeated(const float* values, int64_t count) : times_(kFloats / count) {
    for (int64_t i = 0; i < times_; ++i) {
      std::memcpy(values_ + i * count, values, count * sizeof(float));
    }
  }
  int64_t times() const { return times_; }
  const float* data() const { return values_; }

 private:
  const int64_t times_;
  float values_[kFloats];
};

// Returns true if Repeated makes the loops for this number of channels faster.
bool IsRepeated(int64_t channels) {
  return channels > 0 && channels <= Repeated::kFloats / 4;
}

// Calls row(pixel, channel, floats) for parts of a tensor of `pixels` x
// `channels`. If all views are dense, a part is a contiguous range: `pixel` is
// 0, and `channel` is its offset in floats. Otherwise each pixel is a part.
template <typename Row>
void ForRows(int64_t pixels, int64_t channels, bool dense, Row&& row) {
  if (dense) {
    ParallelFor(pixels * channels, kGrainFloats,
                [&](int64_t begin, int64_t end) {
                  // A part is so short that its sums stay in a core's cache
                  // from one term to the next.
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

// A row is the channels of one pixel. If a row has at most this many channels,
// the call of a function for the row takes longer than the computation.
constexpr int64_t kFewChannels = 64;
// Rows with at most kFewChannels channels are therefore computed in blocks of
// several pixels. A block has at most this many floats.
constexpr int64_t kBlockFloats = 1024;

bool HasFewChannels(const Target& to) {
  return to.view.channels() > 0 && to.view.channels() <= kFewChannels;
}

// Returns the address of `pixels` contiguous pixels that begin with `pixel`. If
// they are not contiguous, copies them to `scratch`, which has kBlockFloats
// floats. If the tensor has only one channel, its value is repeated for all
// `channels`.
const float* Gather(const Source& from, int64_t pixel, int64_t pixels,
                    int64_t channels, float* scratch) {
  const float* x = At(from, pixel, 0);
  const bool spreads = from.view.channels() < channels;
  if (!spreads && from.view.dense()) return x;
  float* out = scratch;
  for (int64_t p = 0; p < pixels; ++p, x += from.view.pitch, out += channels) {
    for (int64_t c = 0; c < channels; ++c) out[c] = x[spreads ? 0 : c];
  }
  return scratch;
}

// Computes `to`, which has few channels, in blocks of at most kBlockFloats
// floats. For each block, block(first pixel, number of pixels, out) must write
// the result to `out`, which is then copied into `to`.
template <typename Block>
void ForBlocks(const Target& to, Block&& block) {
  const int64_t channels = to.view.channels();
  ParallelFor(to.view.pixels(), kGrainFloats / channels,
              [&](int64_t begin, int64_t end) {
                float scratch[kBlockFloats];
                for (int64_t pixels; begin < end; begin += pixels) {
                  pixels = std::min(kBlockFloats / channels, end - begin);
                  float* out = At(to, begin, 0);
                  if (to.view.dense()) {
                    block(begin, pixels, out);
                    continue;
                  }
                  block(begin, pixels, scratch);
                  const float* x = scratch;
                  for (int64_t p = 0; p < pixels; ++p, out += to.view.pitch) {
                    for (int64_t c = 0; c < channels; ++c) out[c] = *x++;
                  }
                }
              });
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
  const bool dense = x.view.dense() && to.view.dense();
  if (!dense && HasFewChannels(to)) {
    const int64_t channels = to.view.channels();
    return ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
      float scratch[kBlockFloats];
      ActivateRow(Gather(x, p, pixels, channels, scratch), pixels * channels,
                  activation, out);
    });
  }
  ForRows(to.view.pixels(), to.view.channels(), dense,
          [&](int64_t p, int64_t c, int64_t n) {
            ActivateRow(At(x, p, c), n, activation, At(to, p, c));
          });
}

void Add(const std::vector<Source>& terms, Activation activation,
         const Target& to) {
  bool dense = to.view.dense();
  for (const Source& term : terms) dense = dense && term.view.dense();
  const auto activation_after = [&](size_t term) {
    return term + 1 == terms.size() ? activation : Activation::kNone;
  };
  if (!dense && HasFewChannels(to)) {
    const int64_t channels = to.view.channels();
    return ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
      float first[kBlockFloats], scratch[kBlockFloats];
      const float* sum = Gather(terms[0], p, pixels, channels, first);
      for (size_t t = 1; t < terms.size(); ++t) {
        IOS_DISPATCH(AddRow)(sum,
                             Gather(terms[t], p, pixels, channels, scratch),
                             pixels * channels, activation_after(t), out);
        sum = out;
      }
    });
  }
  ForRows(to.view.pixels(), to.view.channels(), dense,
          [&](int64_t p, int64_t c, int64_t n) {
            const float* sum = At(terms[0], p, c);
            float* out = At(to, p, c);
            for (size_t t = 1; t < terms.size(); ++t) {
              IOS_DISPATCH(AddRow)(sum, At(terms[t], p, c), n,
                                   activation_after(t), out);
              sum = out;
            }
          });
}

// Returns true if BinaryPerChannel supports the operands: `y` has one value for
// each channel, either of each image or of all images.
bool IsPerChannel(const Source& x, const Source& y, const Target& to) {
  const Shape& shape = y.view.shape;
  return shape.size() == 4 && x.view.shape == to.view.shape && x.view.dense() &&
         to.view.dense() && shape[1] == 1 && shape[2] == 1 &&
         shape[3] == to.view.shape[3] && IsRepeated(shape[3]) &&
         NumElements(to.view.shape) > 0;
}

void BinaryPerChannel(BinaryFunction function, const Source& x, const Source& y,
                      Activation activation, const Target& to) {
  const int64_t channels = to.view.channels();
  const int64_t per_image = to.view.shape[1] * to.view.shape[2];
  const int64_t step = y.view.shape[0] == 1 ? 0 : y.view.pitch;
  ParallelFor(to.view.pixels(), kGrainFloats / channels,
              [&](int64_t begin, int64_t end) {
                while (begin < end) {
                  const int64_t image = begin / per_image;
                  const int64_t last = std::min((image + 1) * per_image, end);
                  const Repeated operand(y.data + image * step, channels);
                  for (; begin < last; begin += operand.times()) {
                    const int64_t n =
                        std::min(operand.times(), last - begin) * channels;
                    float* out = At(to, begin, 0);
                    BinaryRow(function, {At(x, begin, 0)}, {operand.data()}, n,
                              out);
                    if (activation != Activation::kNone) {
                      ActivateRow(out, n, activation, out);
                    }
                  }
                  begin = last;
                }
              });
}

// Returns true if BinaryOfBlocks supports the operands: both have as many
// pixels as `to`, and their rows are short and not contiguous.
bool IsOfBlocks(const Source& x, const Source& y, const Target& to) {
  const Shape& shape = to.view.shape;
  if (shape.size() != 4 || !HasFewChannels(to)) return false;
  bool dense = to.view.dense();
  for (const Source* s : {&x, &y}) {
    const Shape& own = s->view.shape;
    if (own != shape && own != Shape{shape[0], shape[1], shape[2], 1}) {
      return false;
    }
    dense = dense && s->view.dense() && own == shape;
  }
  return !dense;
}

void BinaryOfBlocks(BinaryFunction function, const Source& x, const Source& y,
                    Activation activation, const Target& to) {
  const int64_t channels = to.view.channels();
  ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
    float xs[kBlockFloats], ys[kBlockFloats];
    const int64_t n = pixels * channels;
    BinaryRow(function, {Gather(x, p, pixels, channels, xs)},
              {Gather(y, p, pixels, channels, ys)}, n, out);
    if (activation != Activation::kNone) ActivateRow(out, n, activation, out);
  });
}

void Binary(BinaryFunction function, const Source& x, const Source& y,
            Activation activation, const Target& to) {
  if (IsPerChannel(x, y, to)) {
    return BinaryPerChannel(function, x, y, activation, to);
  }
  if (IsOfBlocks(x, y, to)) {
    return BinaryOfBlocks(function, x, y, activation, to);
  }
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
          BinaryRow(
              function, {x.data + row.x + first * rows.x_step(), rows.x_step()},
              {y.data + row.y + first * rows.y_step(), rows.y_step()}, n, out);
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
  const int64_t channels = to.view.channels();
  if (x.view.dense() && to.view.dense() && IsRepeated(channels)) {
    ParallelFor(to.view.pixels(), kGrainFloats / channels,
                [&](int64_t begin, int64_t end) {
                  const Repeated scales(scale, channels);
                  const Repeated shifts(shift, channels);
                  for (; begin < end; begin += scales.times()) {
                    const int64_t pixels =
                        std::min(scales.times(), end - begin);
                    IOS_DISPATCH(ScaleRow)(At(x, begin, 0), scales.data(),
                                           shifts.data(), pixels * channels,
                                           activation, At(to, begin, 0));
                  }
                });
    return;
  }
  if (HasFewChannels(to)) {
    const Repeated scales(scale, channels), shifts(shift, channels);
    return ForBlocks(to, [&](int64_t p, int64_t pixels, float* out) {
      float scratch[kBlockFloats];
      IOS_DISPATCH(ScaleRow)(Gather(x, p, pixels, channels, scratch),
                             scales.data(), shifts.data(), pixels * channels,
                             activation, out);
    });
  }
  ForRows(to.view.pixels(), channels, /*dense=*/false,
          [&](int64_t p, int64_t c, int64_t n) {
            IOS_DISPATCH(ScaleRow)(At(x, p, c), scale, shift, n, activation,
                                   At(to, p, c));
          });
}

}  // namespace ios::cpu

#endif  // IOS_TARGET
