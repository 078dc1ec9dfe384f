// Depthwise convolution of images with channels last. It can also compute a sum
// and a Relu before the convolution, and a bias and an activation after it.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/depthwise_rows.h"

namespace ios::cpu {

// Computes a depthwise convolution row by row. It reads the rows of a plain
// image where they are. If there is a sum or a Relu before the convolution, it
// reads a ring buffer in scratch memory, which has the latest rows after the
// Relu, with padding zeros around them.
//
// The elements of tensors are of type T: float or BFloat16. The ring, the
// filter and the bias are floats. Results are rounded to T once, after the
// activation.
template <typename T>
class Depthwise {
 public:
  // `input` is [N,H,W,C]; the output has `output`'s height and width.
  Depthwise(const Operator& op, const Shape& input, const Shape& output);

  // Returns true if this class supports the operator: the numbers of input and
  // output channels are equal, and the window has at most kMaxRows rows, which
  // fit into caches.
  static bool Takes(const Operator& op, const Shape& input,
                    const Shape& output);

  int64_t channels() const { return channels_; }
  int64_t out_width() const { return out_width_; }
  // The number of output rows of all images.
  int64_t rows() const { return images_ * out_height_; }
  int64_t row_floats() const { return out_width_ * channels_; }

  // The rows `begin` to `end` (exclusive) of the output, counted over all
  // images.
  struct Rows {
    int64_t begin = 0, end = 0;
  };

  // The input: either the sum of one or more terms, or rows of shape [W,C] that
  // `make` writes when they are needed.
  struct Image {
    std::vector<Term<T>> terms;
    std::function<void(int64_t image, int64_t row, float* to)> make;
  };

  struct Arguments {
    const float* filter = nullptr;  // [kh,kw,C]
    const float* bias = nullptr;    // [C], or null for none
    Activation activation;
    T* output = nullptr;  // the first row; the others follow it
    int64_t output_pitch = 0;
    // If `use` is set, it is called after each batch of finished rows, which
    // has at most rows_at_once rows. The next batch overwrites these rows in
    // `output`.
    std::function<void(const Rows& rows)> use;
    int64_t rows_at_once = 1;
  };

  // Returns the number of floats of scratch memory that Run() needs.
  int64_t scratch_floats(const Image& image) const;

  // Computes the rows `rows` of the output on the calling thread.
  void Run(const Image& image, const Arguments& arguments, Rows rows,
           float* scratch) const;

 private:
  template <bool kDirect>
  class Walk;

  // Returns true if Run() reads the image where it is, without the ring.
  bool ReadsDirectly(const Image& image) const;

  // Returns true if the L1 cache can hold a vector of all pixels of the rows of
  // a window, where they lie in the image.
  bool WindowsFitInL1(const Image& image) const;

  int64_t ring_rows() const { return (kernel_[0] - 1) * dilations_[0] + 1; }
  int64_t padded_width() const {
    return (out_width_ - 1) * strides_[1] + (kernel_[1] - 1) * dilations_[1] +
           1;
  }
  int64_t vectors() const;  // of channels

  // The distances of pixels, vectors and rows in the ring, in floats. Rows that
  // Image::make writes have the layout [W,C]. Other rows have the layout
  // [vectors, padded W, kVectorFloats].
  struct Ring {
    int64_t pixel = 0, vector = 0, row = 0;
  };
  Ring RingOf(const Image& image) const;

  int64_t images_, height_, width_, channels_;
  int64_t out_height_, out_width_;
  std::array<int64_t, 2> kernel_, strides_, dilations_;
  int64_t top_, left_;  // padding
  bool relu_;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_H_
