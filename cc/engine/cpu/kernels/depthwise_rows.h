// One row of a depthwise convolution: of the image on its way into a ring of
// rows, and of the output, of rows that are there.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_ROWS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios::cpu {

// Channels that are computed at once, whatever the instruction set.
constexpr int64_t kVectorFloats = 16;
typedef float Vector
    __attribute__((vector_size(kVectorFloats * sizeof(float))));

constexpr int64_t kMaxRows = 16;  // of a window

// Where the vector that would begin at `channel` does: the last one overlaps
// the one before it.
inline int64_t FirstChannel(int64_t channel, int64_t channels) {
  return std::max<int64_t>(std::min(channel, channels - kVectorFloats), 0);
}

// A tensor with pixels `pitch` floats apart.
struct Term {
  const float* x = nullptr;
  int64_t pitch = 0;
};

// One row of the image on its way into the ring: [W,C] to [vectors, padded W].
struct InputRow {
  const std::vector<Term>* terms;
  int64_t pixel;  // the first, of the terms'
  int64_t channels;
  int64_t columns;  // that are copied
  int64_t whole;    // of these, behind which there is a vector's length to read
  bool relu;
  float* to;            // of the first of these columns
  int64_t vector_step;  // floats
};

void CopyInputRow(const InputRow& row);

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
  int64_t channels;  // of a pixel
  // A vector may be longer than a pixel. What it writes beyond is overwritten
  // by the pixels that follow; `whole` columns have enough of them.
  int64_t whole;
};

void ComputeRow(const OutputRow& row);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_ROWS_H_
