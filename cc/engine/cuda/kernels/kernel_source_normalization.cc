// Kernels that combine channels: reductions, normalisations, shuffles.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kNormalizationSource[] = R"cuda(
// Macros: IOS_THREADS is the number of threads of a block, a power of two.
// IOS_MAXIMUM says whether ReduceChannels computes the maximum. IOS_VECTOR is
// 1.

__device__ __forceinline__ float LoadOne(const void* tensor, unsigned element) {
  return LoadVector(tensor, element).v[0];
}
__device__ __forceinline__ void StoreOne(void* tensor, unsigned element, float value) {
  Vector x;
  x.v[0] = value;
  StoreVector(tensor, element, x);
}

// Returns the larger number, or NaN if one of them is NaN.
__device__ __forceinline__ float Larger(float a, float b) {
  return a > b || a != a ? a : b;
}

// Returns the sum (or maximum) of `value` over all threads of the block, to
// every thread.
template <bool kMaximum>
__device__ __forceinline__ float OfBlock(float value, float* shared) {
  const unsigned thread = threadIdx.x;
  __syncthreads();  // the array may still be read
  shared[thread] = value;
  for (unsigned half = IOS_THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      const float other = shared[thread + half];
      shared[thread] =
          kMaximum ? Larger(shared[thread], other) : shared[thread] + other;
    }
  }
  __syncthreads();
  return shared[0];
}

// Each block reduces the p.count channels of one pixel.
IOS_KERNEL(ReduceChannels, NormalizationParams) {
  __shared__ float shared[IOS_THREADS];
  const unsigned input = blockIdx.x * p.input_pitch;
  float result = IOS_MAXIMUM ? FromBits(0xff800000) : 0.0f;
  for (unsigned i = threadIdx.x; i < p.count; i += IOS_THREADS) {
    const float x = LoadOne(p.input, input + i);
    result = IOS_MAXIMUM ? Larger(result, x) : result + x;
  }
  result = OfBlock<IOS_MAXIMUM>(result, shared);
  if (threadIdx.x == 0) {
    StoreOne(p.output, blockIdx.x * p.output_pitch, result * p.factor);
  }
}

// Each block normalizes one group: p.channels channels of p.pixels pixels,
// which are p.count elements.
IOS_KERNEL(Normalize, NormalizationParams) {
  __shared__ float shared[IOS_THREADS];
  unsigned first = blockIdx.x;
  const unsigned channel = Split(first, p.groups) * p.channels.value;
  first *= p.pixels;
  float sum = 0.0f;
  for (unsigned i = threadIdx.x; i < p.count; i += IOS_THREADS) {
    unsigned pixel = i;
    const unsigned c = Split(pixel, p.channels) + channel;
    sum += LoadOne(p.input, (first + pixel) * p.input_pitch + c);
  }
  const float mean = OfBlock<false>(sum, shared) * p.factor;
  sum = 0.0f;
  for (unsigned i = threadIdx.x; i < p.count; i += IOS_THREADS) {
    unsigned pixel = i;
    const unsigned c = Split(pixel, p.channels) + channel;
    const float difference =
        LoadOne(p.input, (first + pixel) * p.input_pitch + c) - mean;
    sum += difference * difference;
  }
  const float variance = OfBlock<false>(sum, shared) * p.factor;
  const float factor = 1.0f / sqrtf(variance + p.epsilon);
  for (unsigned i = threadIdx.x; i < p.count; i += IOS_THREADS) {
    unsigned pixel = i;
    const unsigned c = Split(pixel, p.channels) + channel;
    const float x = LoadOne(p.input, (first + pixel) * p.input_pitch + c);
    StoreOne(p.output, (first + pixel) * p.output_pitch + c,
             (x - mean) * factor * LoadOne(p.scale, c) + LoadOne(p.shift, c));
  }
}

// Each thread computes one element of the output. A pixel of the output has
// p.channels groups of p.groups channels.
IOS_KERNEL(ShuffleChannels, NormalizationParams) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= p.count) return;
  const unsigned g = Split(i, p.groups);
  const unsigned j = Split(i, p.channels);
  Store(At(p.output, i * p.output_pitch + j * p.groups.value + g),
        LoadRaw(p.input, i * p.input_pitch + g * p.channels.value + j));
}
)cuda";

}  // namespace ios::cuda
