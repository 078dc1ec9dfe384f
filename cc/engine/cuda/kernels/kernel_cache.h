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

// Adds the macros that specialise Activate() in the kernels' source.
void AddActivation(const Activation& activation, Macros* macros);

// A kernel of kernel_source.h and the macros that specialise its source.
struct KernelVariant {
  const char* name;
  const char* source;
  Macros macros;
};

class KernelCache {
 public:
  // Returns the device's cache, which lives as long as the process.
  static KernelCache* Of(const Device* device);

  // Returns the kernel, loaded into the device's context, which must be
  // current. Safe to call from many threads at once.
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

// A kernel, its grid, and the arguments that all launches share.
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

  // For kernels with one input and one output; `params` has all other
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
