// Runs kernels that the fake NVRTC compiled on the CPU, block by block.
#ifndef IOS_TF_TESTS_FAKE_CUDA_KERNEL_RUNNER_H_
#define IOS_TF_TESTS_FAKE_CUDA_KERNEL_RUNNER_H_

#include "host_kernel.h"

namespace fake {

struct HostKernel {
  void (*call)(void** parameters) = nullptr;
  IosHostState* state = nullptr;
};

// Runs a kernel. `order` is a random number that determines the order of blocks
// and threads. Returns false if only some threads of a block arrived at a
// barrier.
bool RunKernel(const HostKernel& kernel, IosHostIndex grid, IosHostIndex block,
               void** parameters, unsigned long order, IosHostTracker* tracker);

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_KERNEL_RUNNER_H_
