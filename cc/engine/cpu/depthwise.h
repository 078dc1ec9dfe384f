// Depthwise convolution of images with their channels last, and the Relu before it.
#ifndef IOS_TF_CC_ENGINE_CPU_DEPTHWISE_H_
#define IOS_TF_CC_ENGINE_CPU_DEPTHWISE_H_

#include <array>
#include <cstdint>

#include "cc/core/block.h"

namespace ios::cpu {

struct Depthwise {
  // `input` is [N,H,W,C]; the output has `output`'s height and width.
  Depthwise(const Operator& op, const Shape& input, const Shape& output);

  // Whether there are channels enough for the kernel.
  static bool Takes(const Operator& op, const Shape& input);

  int64_t rows() const { return images * out_height; }
  int64_t row_floats() const { return out_width * channels; }

  // Computes rows [begin, end) of all images' outputs, on the calling thread.
  // Pixels of `x` lie `pitch` floats apart, `filter` is [kh,kw,C], and row `begin`
  // goes to `to`, the others behind it.
  void Run(const float* x, int64_t pitch, const float* filter, int64_t begin,
           int64_t end, float* to) const;

  int64_t images, height, width, channels;
  int64_t out_height, out_width;
  std::array<int64_t, 2> kernel, strides, dilations;
  int64_t top, left;  // padding
  bool relu;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_DEPTHWISE_H_
