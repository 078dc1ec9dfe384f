// Kernels in which the threads of a block compute one result together, in
// shared memory and in a fixed order, so that results do not vary.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kReductionSource[] = R"cuda(
// Macros: IOS_THREADS is the number of threads of a block, a power of two.
// IOS_MAXIMUM says whether GlobalPool computes the maximum.

#ifdef IOS_MAXIMUM

__device__ __forceinline__ float Combine(float a, float b) {
  // The maximum is NaN if a or b is NaN.
  return IOS_MAXIMUM ? (a > b || a != a ? a : b) : a + b;
}

// Each block pools 1 << channel_bits vectors of channels of one image. The
// pixels are shared by the threads that have the same vector.
IOS_KERNEL(GlobalPool, GlobalPoolParams) {
  __shared__ float shared[kVector][IOS_THREADS];
  unsigned image = blockIdx.x;
  const unsigned thread = threadIdx.x;
  const unsigned channel_tile = Split(image, p.channel_tiles);
  const unsigned vector =
      (channel_tile << p.channel_bits) + (thread & ((1u << p.channel_bits) - 1));
  const unsigned threads = IOS_THREADS >> p.channel_bits;  // of one vector
  Vector result;
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    result.v[e] = IOS_MAXIMUM ? FromBits(0xff800000) : 0.0f;
  }
  // Four loads are in flight at once. Loads after the last pixel return a value
  // that does not change the result.
  constexpr int kBatch = 4;
  for (unsigned pixel = thread >> p.channel_bits; pixel < p.pixels;
       pixel += kBatch * threads) {
    Raw batch[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const unsigned source = image * p.pixels + pixel + b * threads;
      batch[b] = LoadIf<sizeof(Element) * kVector>(
          At(p.input, source * p.input_pitch + vector * kVector),
          pixel + b * threads < p.pixels && vector < p.vectors,
          IOS_MAXIMUM ? kMinusInfinity : 0);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const Vector x = Unpack(batch[b]);
#pragma unroll
      for (int e = 0; e < kVector; ++e) result.v[e] = Combine(result.v[e], x.v[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < kVector; ++e) shared[e][thread] = result.v[e];
  // Adds up the results of threads that have the same vector: thread i and
  // thread i + half.
  for (unsigned half = IOS_THREADS / 2; half >= 1u << p.channel_bits; half /= 2) {
    __syncthreads();
    if (thread < half) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        shared[e][thread] = Combine(shared[e][thread], shared[e][thread + half]);
      }
    }
  }
  // No synchronization is needed here, because each thread reads only what it
  // has written itself.
  if (thread < 1u << p.channel_bits && vector < p.vectors) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) result.v[e] = shared[e][thread] * p.scale;
    StoreVector(p.output, image * p.output_pitch + vector * kVector, result);
  }
}

#else

// Returns the sum (or maximum) of `value` over all threads of the block, to
// every thread.
template <bool kMaximum>
__device__ __forceinline__ float Reduce(float value, float* shared) {
  const unsigned thread = threadIdx.x;
  __syncthreads();  // the array may still be read
  shared[thread] = value;
  for (unsigned half = IOS_THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      const float other = shared[thread + half];
      shared[thread] =
          kMaximum ? fmaxf(shared[thread], other) : shared[thread] + other;
    }
  }
  __syncthreads();
  return shared[0];
}

// Each block computes one row.
IOS_KERNEL(Softmax, SoftmaxParams) {
  __shared__ float shared[IOS_THREADS];
  const unsigned input = blockIdx.x * p.input_pitch;
  const unsigned output = blockIdx.x * p.output_pitch;
  float maximum = FromBits(0xff800000);
  for (unsigned i = threadIdx.x; i < p.vectors; i += IOS_THREADS) {
    const Vector x = LoadVector(p.input, input + i * kVector);
#pragma unroll
    for (int e = 0; e < kVector; ++e) maximum = fmaxf(maximum, x.v[e]);
  }
  maximum = Reduce<true>(maximum, shared);
  float sum = 0.0f;
  for (unsigned i = threadIdx.x; i < p.vectors; i += IOS_THREADS) {
    const Vector x = LoadVector(p.input, input + i * kVector);
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum += expf(x.v[e] - maximum);
  }
  const float scale = 1.0f / Reduce<false>(sum, shared);
  for (unsigned i = threadIdx.x; i < p.vectors; i += IOS_THREADS) {
    Vector x = LoadVector(p.input, input + i * kVector);
#pragma unroll
    for (int e = 0; e < kVector; ++e) x.v[e] = expf(x.v[e] - maximum) * scale;
    StoreVector(p.output, output + i * kVector, x);
  }
}

#endif  // IOS_MAXIMUM
)cuda";

}  // namespace ios::cuda
