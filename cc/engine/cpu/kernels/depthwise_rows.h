// Single rows of a depthwise convolution: copies a row of the image into a ring
// of rows, and computes a row of the output from rows in the ring.
#ifndef IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_ROWS_H_
#define IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/cpu/kernels/bfloat16.h"

namespace ios::cpu {

// The number of channels that are computed together. It is the same for all
// instruction sets.
constexpr int64_t kVectorFloats = 16;
typedef float Vector
    __attribute__((vector_size(kVectorFloats * sizeof(float))));

constexpr int64_t kMaxRows = 16;  // of a window

// Returns the first channel of the vector that begins at `channel`: the last
// vector begins earlier, so that it ends with the last channel, and may overlap
// the vector before it.
inline int64_t FirstChannel(int64_t channel, int64_t channels) {
  return std::max<int64_t>(std::min(channel, channels - kVectorFloats), 0);
}

// A term of the sum: a tensor whose pixels are `pitch` elements apart.
template <typename T>
struct Term {
  const T* x = nullptr;
  int64_t pitch = 0;
};

// The arguments for copying one row of the image, [W,C], into the ring,
// [vectors, padded W, kVectorFloats].
template <typename T>
struct InputRow {
  const std::vector<Term<T>>* terms;
  int64_t pixel;  // index of the first pixel in each term
  int64_t channels;
  int64_t columns;  // to copy
  int64_t whole;    // of these, columns where a whole vector can be read
  bool relu;
  float* to;            // for the first of these columns
  int64_t vector_step;  // floats
};

void CopyInputRow(const InputRow<float>& row);
void CopyInputRow(const InputRow<BFloat16>& row);

// The arguments for computing rows of the output from rows of the image or of
// the ring, whose elements are of type S.
template <typename S>
struct OutputRow {
  // The rows of the window for the first row of the output.
  const S* rows[kMaxRows];
  int64_t first, count;  // rows of the window that are in the image
  const float* filter;   // of channel 0, with whole vectors
  const float* bias;     // also with whole vectors, or null for none
  int64_t filter_step;   // floats between cells
  int64_t width;         // of the window
  int64_t pixel;         // elements between pixels
  int64_t step, stride;  // elements between cells, between windows
  int64_t left;          // elements of padding before each row
  int64_t end;           // elements from a row's first pixel to its end
  int64_t columns;
  int64_t tile_columns;  // computed for all channels before the next columns
  // Elements between the vectors of a pixel, or 0 if the channels of a pixel
  // are contiguous.
  int64_t vector_step;
  Activation::Kind activation;  // see IsInRegisters()
  int64_t pitch;                // elements between pixels of the output
  // The number of rows of the output. The windows of each next row begin
  // `next_windows` elements later, and its pixels are stored `next_output`
  // elements later.
  int64_t height = 1, next_windows = 0, next_output = 0;
  int64_t channels;  // of a pixel
  // A vector may be longer than a pixel. In the first `whole` columns, a whole
  // vector can be stored, because the following pixels later overwrite the
  // floats beyond the pixel.
  int64_t whole;
};

// Computes the vectors of channels `begin` to `end` (exclusive) of rows of the
// output. The first of these channels are stored at `out`. If kIsPadded, the
// rows include the padding, so `left` is 0. Otherwise a window may begin before
// a row and end behind it, but at least one of its columns is in the row.
template <bool kIsPadded, typename S, typename T>
void ComputeRow(const OutputRow<S>& row, int64_t begin, int64_t end, T* out);

// Returns how often ComputeRow() loads each line of a row of the image, for
// windows of `width` columns.
int64_t LineLoads(int64_t width, int64_t stride, int64_t dilation);

// Rounds `count` vectors to the type of `to`, and stores the first `channels`
// elements of each vector. The results are `pitch` elements apart.
void StoreVectors(const float* vectors, int64_t count, int64_t channels,
                  float* to, int64_t pitch);
void StoreVectors(const float* vectors, int64_t count, int64_t channels,
                  BFloat16* to, int64_t pitch);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_KERNELS_DEPTHWISE_ROWS_H_
