// Lets the engine's CUDA C++ kernels compile as C++ for the host. The fake
// NVRTC puts this file before their text. Like NVRTC, this file includes no
// standard header.
#ifndef IOS_TF_TESTS_FAKE_CUDA_SHIM_H_
#define IOS_TF_TESTS_FAKE_CUDA_SHIM_H_

#include "host_kernel.h"

#define IOS_HOST 1
#define __CUDA_ARCH__ 900
// The fake NVRTC looks for this attribute.
#define __global__ __attribute__((ios_kernel))
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
// The fake NVRTC also looks for this attribute. The host's compiler ignores it.
#define __launch_bounds__(...) __attribute__((ios_bounds(__VA_ARGS__)))
#define __align__(n) alignas(n)

typedef decltype(sizeof(0)) size_t;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(4) ushort2 {
  unsigned short x, y;
};
struct alignas(8) ushort4 {
  unsigned short x, y, z, w;
};

extern "C" {
// CUDA's functions of one and of two numbers that the C library has, too.
using UnaryFunction = float(float) noexcept;
using BinaryFunction = float(float, float) noexcept;
UnaryFunction acosf, acoshf, asinf, asinhf, atanf, atanhf, cbrtf, ceilf, cosf,
    coshf, erff, erfcf, expf, exp2f, expm1f, fabsf, floorf, lgammaf, logf,
    log10f, log1pf, log2f, nearbyintf, rintf, roundf, sinf, sinhf, sqrtf, tanf,
    tanhf, tgammaf, truncf;
BinaryFunction atan2f, copysignf, fdimf, fmaxf, fminf, fmodf, hypotf, powf,
    remainderf;

IosHostState ios_host_state;
}

#define threadIdx ios_host_state.thread
#define blockIdx ios_host_state.block
#define blockDim ios_host_state.block_dim
#define gridDim ios_host_state.grid_dim

// A kernel that waits for a time to pass is done at once; the driver counts the
// time as if it had passed.
inline unsigned long long IosHostNanoseconds() {
  static unsigned long long now = 0;
  return now += 1000000000;
}

inline void __syncthreads() { ios_host_state.barrier(); }

// Records a read of `bytes` bytes (2, 4, 8 or 16), and returns the address to
// read from.
inline const void* IosHostLoad(const void* pointer, size_t bytes) {
  return IosHostTouch(ios_host_state.tracker, pointer, bytes, false)
             ? pointer
             : ios_host_state.tracker->nowhere;
}

inline void* IosHostStore(void* pointer, size_t bytes) {
  return IosHostTouch(ios_host_state.tracker, pointer, bytes, true)
             ? pointer
             : ios_host_state.tracker->nowhere;
}

// Calls a kernel with the parameters of cuLaunchKernel, and lists the sizes of
// these parameters.
template <typename... Arguments>
struct IosHostKernel {
  template <int... kIndex>
  struct Indices {};
  template <int kCount, int... kIndex>
  struct Make : Make<kCount - 1, kCount - 1, kIndex...> {};
  template <int... kIndex>
  struct Make<0, kIndex...> {
    using Type = Indices<kIndex...>;
  };

  template <int... kIndex>
  static void Call(void (*kernel)(Arguments...), void** parameters,
                   Indices<kIndex...>) {
    kernel(*static_cast<Arguments*>(parameters[kIndex])...);
  }
  static void Call(void (*kernel)(Arguments...), void** parameters) {
    Call(kernel, parameters, typename Make<sizeof...(Arguments)>::Type());
  }
  static int Sizes(unsigned* sizes) {
    (void)sizes;
    ((*sizes++ = sizeof(Arguments)), ...);
    return sizeof...(Arguments);
  }
};
template <typename... Arguments>
IosHostKernel<Arguments...> IosHostKernelOf(void (*)(Arguments...)) {
  return {};
}

#define IOS_HOST_KERNEL(name)                                  \
  extern "C" void ios_call_##name(void** parameters) {         \
    decltype(IosHostKernelOf(&name))::Call(&name, parameters); \
  }                                                            \
  extern "C" int ios_sizes_##name(unsigned* sizes) {           \
    return decltype(IosHostKernelOf(&name))::Sizes(sizes);     \
  }

#endif  // IOS_TF_TESTS_FAKE_CUDA_SHIM_H_
