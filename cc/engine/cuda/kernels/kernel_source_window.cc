// Kernels that slide a window over each channel of an image: depthwise
// convolution and pooling.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kWindowSource[] = R"cuda(
// Each thread computes a strip of IOS_STRIP neighbouring pixels in a row, for
// one vector of channels, and reads every cell of their windows once. A block
// is a patch of channels x strips x rows, so that cells which several windows
// share are in the L1 cache. Macros: IOS_WINDOW is 0 for depthwise convolution,
// 1 for maximum and 2 for average. IOS_KERNEL_HEIGHT, IOS_KERNEL_WIDTH and
// IOS_STRIDE are defined if the kernel is compiled for one window, without
// dilation; otherwise any window is supported, and IOS_STRIP is 1. IOS_UNROLL
// is the number of unrolled rows of the window. IOS_PADS_ZEROS says whether
// cells outside of the image count as zeros in a maximum, and IOS_PRE_RELU
// whether the input gets a relu. IOS_BIAS and IOS_RESIDUAL say what is added to
// the output.

constexpr bool kDepthwise = IOS_WINDOW == 0;
constexpr int kStrip = IOS_STRIP;
// The maximum of no numbers, as in TensorFlow: the lowest finite number.
constexpr float kLowest = IOS_DTYPE == 0   ? -3.402823466e38f
                          : IOS_DTYPE == 1 ? -65504.0f
                                           : -3.3895314e38f;
constexpr unsigned kOutside = IOS_WINDOW == 1 ? kMinusInfinity : 0;

struct Sums {
  Vector of[kStrip];
};

__device__ __forceinline__ void Take(const Vector& x, const Vector& weight,
                                     Vector& sum) {
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if (kDepthwise) {
      sum.v[e] += x.v[e] * weight.v[e];
    } else if (IOS_WINDOW == 1) {
      // NaN is ignored, as in TensorFlow and cuDNN.
      sum.v[e] = fmaxf(sum.v[e], x.v[e]);
    } else {
      sum.v[e] += x.v[e];
    }
  }
}

__device__ __forceinline__ Vector Input(const Raw& raw) {
  Vector x = Unpack(raw);
#if IOS_PRE_RELU
#pragma unroll
  for (int e = 0; e < kVector; ++e) x.v[e] = Relu(x.v[e]);
#endif
  return x;
}

// Returns how many cells of a window, which has `size` cells and begins at
// `first`, are in [0, limit).
__device__ __forceinline__ int CellsInside(int first, int size, int limit) {
  const int begin = first > 0 ? first : 0;
  const int end = first + size < limit ? first + size : limit;
  return end > begin ? end - begin : 1;
}

IOS_KERNEL(Window, WindowParams) {
  unsigned tile = blockIdx.x, thread = threadIdx.x;
  const unsigned channel_tile = Split(tile, p.channel_tiles);
  const unsigned column_tile = Split(tile, p.column_tiles);
  const unsigned row_tile = Split(tile, p.row_tiles);
  const int image = tile;
  const int rows_per_tile = blockDim.x >> (p.channel_bits + p.column_bits);
  const int channel =
      ((channel_tile << p.channel_bits) + (thread & ((1u << p.channel_bits) - 1))) *
      kVector;
  thread >>= p.channel_bits;
  const int column =
      ((column_tile << p.column_bits) + (thread & ((1u << p.column_bits) - 1))) *
      kStrip;
  const int row = row_tile * rows_per_tile + (thread >> p.column_bits);
  if (channel >= p.channels || column >= p.output_width || row >= p.output_height) {
    return;
  }
  const unsigned input_channel = FloorDiv(channel, p.multiplier);

  Sums sums;
#pragma unroll
  for (int s = 0; s < kStrip; ++s) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      sums.of[s].v[e] = IOS_WINDOW == 1 ? kLowest : 0.0f;
    }
  }

#ifdef IOS_KERNEL_HEIGHT
  constexpr int kHeight = IOS_KERNEL_HEIGHT, kWidth = IOS_KERNEL_WIDTH;
  constexpr int kColumns = (kStrip - 1) * IOS_STRIDE + kWidth;
  const int top = row * IOS_STRIDE - p.top;
  const int left = column * IOS_STRIDE - p.left;
#pragma unroll IOS_UNROLL
  for (int y = 0; y < kHeight; ++y) {
    const int h = top + y;
    const bool row_inside = h >= 0 && h < p.input_height;
    const int first = (image * p.input_height + h) * p.input_width + left;
    Raw cells[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int w = left + c;
      cells[c] = LoadIf<sizeof(Element) * kVector>(
          At(p.input, (first + c) * p.input_pitch + input_channel),
          row_inside && w >= 0 && w < p.input_width, kOutside);
    }
    Raw weights[kWidth];
    if (kDepthwise) {
#pragma unroll
      for (int x = 0; x < kWidth; ++x) {
        weights[x] = LoadRaw(p.weights, (y * kWidth + x) * p.channels + channel);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const Vector cell = Input(cells[c]);
#pragma unroll
      for (int s = 0; s < kStrip; ++s) {
        const int x = c - s * IOS_STRIDE;
        if (x >= 0 && x < kWidth) {
          Take(cell, kDepthwise ? Unpack(weights[x]) : cell, sums.of[s]);
        }
      }
    }
  }
#else
  static_assert(kStrip == 1, "");
  const int kHeight = p.kernel_height, kWidth = p.kernel_width;
  const int top = row * p.stride_height - p.top;
  const int left = column * p.stride_width - p.left;
  for (int y = 0; y < kHeight; ++y) {
    const int h = top + y * p.dilation_height;
    if (h < 0 || h >= p.input_height) continue;
    const int first = (image * p.input_height + h) * p.input_width;
#pragma unroll 4
    for (int x = 0; x < kWidth; ++x) {
      const int w = left + x * p.dilation_width;
      const Vector cell = Input(LoadIf<sizeof(Element) * kVector>(
          At(p.input, (first + w) * p.input_pitch + input_channel),
          w >= 0 && w < p.input_width, kOutside));
      Take(cell,
           kDepthwise
               ? LoadVector(p.weights, (y * kWidth + x) * p.channels + channel)
               : cell,
           sums.of[0]);
    }
  }
#endif

#if IOS_BIAS
  const Vector bias = LoadVector(p.bias, channel);
#endif
#pragma unroll
  for (int s = 0; s < kStrip; ++s) {
    if (column + s >= p.output_width) break;
    const unsigned pixel =
        (image * p.output_height + row) * p.output_width + column + s;
    Vector sum = sums.of[s];
#if IOS_WINDOW == 2
    const float scale =
        1.0f / (CellsInside(top, kHeight, p.input_height) *
                CellsInside((column + s) * p.stride_width - p.left, kWidth,
                            p.input_width));
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum.v[e] *= scale;
#endif
#if IOS_PADS_ZEROS
    const int first = (column + s) * p.stride_width - p.left;
    if (top < 0 || top + kHeight > p.input_height || first < 0 ||
        first + kWidth > p.input_width) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) sum.v[e] = fmaxf(sum.v[e], 0.0f);
    }
#endif
#if IOS_RESIDUAL
    AddTo(sum, LoadVector(p.residual, pixel * p.residual_pitch + channel));
#endif
#if IOS_BIAS
    AddTo(sum, bias);
#endif
    StoreVector(p.output, pixel * p.output_pitch + channel, Activate(sum));
  }
}
)cuda";

}  // namespace ios::cuda
