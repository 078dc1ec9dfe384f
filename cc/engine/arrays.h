// Arrays of others: weights on the host, tensors on a device, memory of one.
#ifndef IOS_TF_CC_ENGINE_ARRAYS_H_
#define IOS_TF_CC_ENGINE_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios {

// A dense row-major float32 array on the host that somebody else owns.
struct ConstArray {
  const float* data = nullptr;
  Shape shape;
};

// A dense row-major tensor of a block's dtype that somebody else owns.
struct TensorArray {
  const void* data = nullptr;
  Shape shape;
};

// weights[i]: those of operator i, in the order of WeightShapes().
using Weights = std::vector<std::vector<ConstArray>>;

// Lends device memory: TensorFlow has taken all of a GPU's before anybody asks
// for some. Lives as long as what was made with it; safe to call from many
// threads.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;

  // Aligned to 256 bytes and used by nothing that was enqueued before; null if
  // there is not enough.
  virtual void* Allocate(int64_t bytes) = 0;
  // Nothing that was enqueued uses it any more.
  virtual void Free(void* memory) = 0;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_ARRAYS_H_
