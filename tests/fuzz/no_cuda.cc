// Replaces the GPU backend, which the fuzzers do not use.
#include "cc/engine/cuda/cuda_backend.h"

namespace ios::cuda {

StatusOr<Backend*> CudaBackend(int, bool, DeviceAllocator*) {
  return FailedPrecondition("fuzzers have no GPU");
}

int64_t FailedCaptures() { return 0; }

void AddLibraryDirectory(const std::string&) {}

}  // namespace ios::cuda
