// Non-owning arrays (weights on the host, tensors on a device), and an
// interface to allocate device memory.
#ifndef IOS_TF_CC_ENGINE_BACKEND_ARRAYS_H_
#define IOS_TF_CC_ENGINE_BACKEND_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios {

// The alignment, in bytes, of a tensor that a caller passes in the memory of a
// GPU. Kernels access at most this many bytes at once. Host memory needs only
// the alignment of its elements.
inline constexpr int64_t kDeviceAlignment = 16;

// A non-owning view of a dense row-major float32 array on the host.
struct ConstArray {
  const float* data = nullptr;
  Shape shape;
};

// A non-owning view of a dense row-major tensor of a block's dtype.
struct TensorArray {
  const void* data = nullptr;
  Shape shape;
};

// weights[i] has the weights of operator i, in the order of WeightShapes().
using Weights = std::vector<std::vector<ConstArray>>;

// The interface through which the engine gets device memory from its host
// program. TensorFlow implements it, because it reserves all of a GPU's memory
// when it starts. The allocator must outlive every object that uses it.
// Thread-safe.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;

  // Returns memory that is aligned to 256 bytes and that no work enqueued
  // before this call uses. Returns null if there is not enough memory.
  virtual void* Allocate(int64_t bytes) = 0;
  // Frees memory. The caller ensures that no enqueued work still uses this
  // memory.
  virtual void Free(void* memory) = 0;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_ARRAYS_H_
