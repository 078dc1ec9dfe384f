// Depthwise convolution of images with their channels last, and the sum and the
// Relu before it.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios::cpu {

// Rows of the image, activated and with zeros around them, are kept in a ring
// in scratch memory, split into vectors of channels, so that all windows of a
// row are alike and what they read lies together.
class Depthwise {
 public:
  // `input` is [N,H,W,C]; the output has `output`'s height and width.
  Depthwise(const Operator& op, const Shape& input, const Shape& output);

  // Whether this is for the operator: as many channels out as in, and a window
  // whose rows fit into caches.
  static bool Takes(const Operator& op, const Shape& input,
                    const Shape& output);

  int64_t channels() const { return channels_; }
  int64_t out_width() const { return out_width_; }
  // Of all images' outputs.
  int64_t rows() const { return images_ * out_height_; }
  int64_t row_floats() const { return out_width_ * channels_; }
  // That each thread needs.
  int64_t scratch_floats() const;

  // A tensor with pixels `pitch` floats apart.
  struct Term {
    const float* x = nullptr;
    int64_t pitch = 0;
  };

  // Rows [begin, end) of the output.
  struct Rows {
    int64_t begin = 0, end = 0;
  };

  // Computes some rows on the calling thread. The input is the sum of one or
  // more terms, `filter` is [kh,kw,C], and the first row goes to `to`, the
  // others behind it.
  void Run(const std::vector<Term>& terms, const float* filter, Rows rows,
           float* to, float* scratch) const;

 private:
  int64_t ring_rows() const { return (kernel_[0] - 1) * dilations_[0] + 1; }
  int64_t padded_width() const {
    return (out_width_ - 1) * strides_[1] + (kernel_[1] - 1) * dilations_[1] +
           1;
  }
  int64_t vectors() const;  // of channels

  int64_t images_, height_, width_, channels_;
  int64_t out_height_, out_width_;
  std::array<int64_t, 2> kernel_, strides_, dilations_;
  int64_t top_, left_;  // padding
  bool relu_;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_H_
