// Memory allocation of the CPU backend, with huge pages if the system has them.
// With pages of 4 KiB, a network reads its weights so slowly that it takes
// several percent longer.
#ifndef IOS_TF_CC_ENGINE_HOST_FLOAT_MEMORY_H_
#define IOS_TF_CC_ENGINE_HOST_FLOAT_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>

namespace ios {

// Allocates uninitialised memory, aligned to at least a cache line. Returns
// null if there is not enough memory.
std::shared_ptr<float> AllocateFloats(int64_t floats);

// Hands out pieces of large allocations (slabs), for arrays that are smaller
// than a huge page and have similar lifetimes. A slab is freed with the last of
// its pieces. Thread-safe.
class FloatPool {
 public:
  std::shared_ptr<float> Allocate(int64_t floats);

 private:
  std::mutex mutex_;
  std::weak_ptr<float> slab_;
  int64_t used_ = 0, size_ = 0;  // of slab_, in floats
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_FLOAT_MEMORY_H_
