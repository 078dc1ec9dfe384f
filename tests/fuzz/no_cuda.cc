// Stands for the GPU's backend, which fuzzers have no use for.
#include "cc/engine/cuda/cuda_backend.h"

namespace ios::cuda {

StatusOr<Backend*> CudaBackend(int, bool, DeviceAllocator*) {
  return FailedPrecondition("fuzzers have no GPU");
}

int64_t FailedCaptures() { return 0; }

void AddLibraryDirectory(const std::string&) {}

}  // namespace ios::cuda
