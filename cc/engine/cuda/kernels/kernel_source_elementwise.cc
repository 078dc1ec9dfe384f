// Elementwise kernels and copies. A thread computes one vector of the output.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kElementwiseSource[] = R"cuda(
// Macros: IOS_TERMS is the number of terms of Sum. IOS_BIAS says whether Sum
// adds a bias. IOS_FUNCTION is the function of Binary, a value of
// ios::BinaryFunction.

// Finds vector number i of a tensor: changes i to its pixel, and returns its
// first channel.
__device__ __forceinline__ unsigned SplitVector(unsigned& i, const Divisor& vectors) {
  return Split(i, vectors) * kVector;
}

#ifdef IOS_TERMS

IOS_KERNEL(Sum, SumParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const unsigned channel = SplitVector(i, p.vectors);
  Raw terms[IOS_TERMS];
#pragma unroll
  for (int t = 0; t < IOS_TERMS; ++t) {
    terms[t] = LoadRaw(p.terms[t], i * p.pitches[t] + channel);
  }
  Vector sum = Unpack(terms[0]);
#pragma unroll
  for (int t = 1; t < IOS_TERMS; ++t) AddTo(sum, Unpack(terms[t]));
#if IOS_BIAS
  AddTo(sum, LoadVector(p.bias, channel));
#endif
  StoreVector(p.output, i * p.output_pitch + channel, Activate(sum));
}

#else

#ifdef IOS_FUNCTION

__device__ __forceinline__ float Compute(float x, float y) {
#if IOS_FUNCTION == 0
  return x * y;
#elif IOS_FUNCTION == 1
  return x + y;
#elif IOS_FUNCTION == 2
  return x - y;
#elif IOS_FUNCTION == 3
  return x / y;
#elif IOS_FUNCTION == 4
  return x > y || x != x ? x : y;  // keeps a NaN of either
#elif IOS_FUNCTION == 5
  return x < y || x != x ? x : y;
#elif IOS_FUNCTION == 6
  return (x - y) * (x - y);
#else
  return x > 0 ? x : x * y;
#endif
}

// Loads the operand's vector at this pixel and channel. If the operand has only
// one channel (kScalar), repeats its value.
template <bool kScalar>
__device__ __forceinline__ Vector LoadOperand(const void* tensor, unsigned pixel,
                                              unsigned channel) {
  if (!kScalar) return LoadVector(tensor, pixel + channel);
  const float value = FirstOf(
      Load<sizeof(Element)>(static_cast<const Element*>(tensor) + pixel).word[0]);
  Vector x;
#pragma unroll
  for (int e = 0; e < kVector; ++e) x.v[e] = value;
  return x;
}

// Macros: IOS_X_SCALAR and IOS_Y_SCALAR say whether the operand has a single
// channel, which is used for all channels.
IOS_KERNEL(Binary, BinaryParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const unsigned channel = SplitVector(i, p.vectors);
  const unsigned pixel = i;
  const unsigned w = Split(i, p.width);
  const unsigned h = Split(i, p.height);
  Vector x = LoadOperand<IOS_X_SCALAR>(
      p.x, i * p.x_strides[0] + h * p.x_strides[1] + w * p.x_strides[2], channel);
  const Vector y = LoadOperand<IOS_Y_SCALAR>(
      p.y, i * p.y_strides[0] + h * p.y_strides[1] + w * p.y_strides[2], channel);
#pragma unroll
  for (int e = 0; e < kVector; ++e) x.v[e] = Compute(x.v[e], y.v[e]);
  StoreVector(p.output, pixel * p.output_pitch + channel, Activate(x));
}

#endif  // IOS_FUNCTION

IOS_KERNEL(Scale, ScaleParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const unsigned channel = SplitVector(i, p.vectors);
  Vector x = LoadVector(p.x, i * p.x_pitch + channel);
  const Vector scale = LoadVector(p.scale, channel);
  const Vector shift = LoadVector(p.shift, channel);
#pragma unroll
  for (int e = 0; e < kVector; ++e) x.v[e] = x.v[e] * scale.v[e] + shift.v[e];
  StoreVector(p.output, i * p.output_pitch + channel, Activate(x));
}

#endif  // IOS_TERMS
)cuda";

const char kCopySource[] = R"cuda(
// Copies do not depend on the type of elements: IOS_DTYPE is 0, threads copy
// words of IOS_WIDTH bytes, and pitches are numbers of words.

typedef Words<IOS_WIDTH> Word;

__device__ __forceinline__ const void* WordAt(const void* tensor, unsigned word) {
  return static_cast<const char*>(tensor) +
         static_cast<unsigned long long>(word) * IOS_WIDTH;
}
__device__ __forceinline__ void* WordAt(void* tensor, unsigned word) {
  return static_cast<char*>(tensor) +
         static_cast<unsigned long long>(word) * IOS_WIDTH;
}

IOS_KERNEL(Copy, CopyParams) {
  const CopyPiece& piece = p.pieces[blockIdx.y];
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= piece.count) return;
  const unsigned word = Split(i, piece.vectors);
  Store(WordAt(piece.to, i * piece.to_pitch + word),
        Load<IOS_WIDTH>(WordAt(piece.from, i * piece.from_pitch + word)));
}

// Returns the cell of the image (of `size` cells) whose value the padding puts
// at position `cell`. `mode` is a value of ios::PadMode.
__device__ __forceinline__ int PaddedCell(int cell, int size, int mode) {
  if (mode == 0) return cell;
  if (mode == 3) return cell >= 0 ? cell % size : size - 1 - (-1 - cell) % size;
  const int repeated = mode == 2;
  if (cell < 0) return -cell - repeated;
  return cell < size ? cell : 2 * size - 2 + repeated - cell;
}

IOS_KERNEL(Pad, PadParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const unsigned word = Split(i, p.vectors);
  const unsigned pixel = i;
  const int w = PaddedCell(static_cast<int>(Split(i, p.output_width)) - p.left,
                           p.input_width, p.mode);
  const int h = PaddedCell(static_cast<int>(Split(i, p.output_height)) - p.top,
                           p.input_height, p.mode);
  const unsigned input_word = word - p.first_word;
  const bool inside = h >= 0 && h < p.input_height && w >= 0 && w < p.input_width &&
                      input_word < p.input_words;
  const unsigned source = (i * p.input_height + h) * p.input_width + w;
  Store(WordAt(p.output, pixel * p.output_pitch + word),
        LoadIf<IOS_WIDTH>(WordAt(p.input, source * p.input_pitch + input_word), inside,
                          p.fill));
}
)cuda";

}  // namespace ios::cuda
