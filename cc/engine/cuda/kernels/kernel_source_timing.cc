// The kernel that keeps the GPU busy before something is timed.
#include "cc/engine/cuda/kernels/kernel_source.h"

namespace ios::cuda {

const char kTimingSource[] = R"cuda(
__device__ __forceinline__ unsigned long long Nanoseconds() {
#ifdef IOS_HOST
  return IosHostNanoseconds();
#else
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#endif
}

IOS_KERNEL(Spin, SpinParams) {
  const unsigned long long begin = Nanoseconds();
  while (Nanoseconds() - begin < p.nanoseconds) {
  }
}
)cuda";

}  // namespace ios::cuda
