// Compiles our own kernels for a device, each variant on its first use, and
// launches them.
#ifndef IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_CACHE_H_
#define IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_CACHE_H_

#include <cuda.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

struct Macro {
  Macro(const char* n, int value) : name(n), text(std::to_string(value)) {}
  Macro(const char* n, const char* t) : name(n), text(t) {}

  const char* name;
  std::string text;
};
using Macros = std::vector<Macro>;

// Adds the macros with which the kernels' source compiles this activation (see
// kernel_source_activations.cc).
void AddActivation(const Activation& activation, Macros* macros);

// A variant of a kernel: its name, its source (see kernel_source.h), and the
// macros with which the source is compiled.
struct KernelVariant {
  const char* name;
  const char* source;
  Macros macros;
};

class KernelCache {
 public:
  // Returns the cache of the device, which is never destroyed.
  static KernelCache* Of(const Device* device);

  // Returns the kernel, and compiles it first if necessary. The device's
  // context, into which the kernel is loaded, must be current. Thread-safe.
  StatusOr<CUfunction> Get(const KernelVariant& variant);

 private:
  struct Loaded {
    Module module;
    CUfunction function = nullptr;
  };

  explicit KernelCache(const Device* device) : device_(device) {}
  StatusOr<Loaded> Load(const KernelVariant& variant) const;

  const Device* const device_;
  std::mutex mutex_;
  std::map<std::string, Loaded> loaded_;  // by name and macros
};

// A kernel with its grid and with the arguments that are the same in all
// launches.
template <typename Params>
struct Launch {
  const Device* device = nullptr;
  CUfunction function = nullptr;
  unsigned grid_x = 0, grid_y = 1, block = 1;
  Params params{};

  Status Enqueue(const Params& complete, CUstream stream) const {
    if (grid_x == 0) return Status();  // an empty batch
    void* arguments[] = {const_cast<Params*>(&complete)};
    IOS_CUDA_RETURN_IF_ERROR(device, cuLaunchKernel, function, grid_x, grid_y,
                             1, block, 1, 1, /*sharedMemBytes=*/0, stream,
                             arguments, /*extra=*/nullptr);
    return Status();
  }

  // Launches a kernel with one input and one output; `params` has all other
  // arguments.
  Status Enqueue(const void* input, void* output, CUstream stream) const {
    Params complete = params;
    complete.input = input;
    complete.output = output;
    return Enqueue(complete, stream);
  }
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_KERNELS_KERNEL_CACHE_H_
