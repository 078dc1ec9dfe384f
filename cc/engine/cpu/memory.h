// Memory of the CPU backend, in huge pages where the system has them: streaming
// a network's weights through 4 KiB pages costs it several percent.
#ifndef IOS_TF_CC_ENGINE_CPU_MEMORY_H_
#define IOS_TF_CC_ENGINE_CPU_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>

namespace ios::cpu {

// Uninitialised, aligned to a cache line at least. Null if there is not enough.
std::shared_ptr<float> AllocateFloats(int64_t floats);

// Hands out pieces of large allocations, for arrays that are smaller than a
// huge page and live about as long as each other; one is given back with the
// last of its pieces. Thread-safe.
class FloatPool {
 public:
  std::shared_ptr<float> Allocate(int64_t floats);

 private:
  std::mutex mutex_;
  std::weak_ptr<float> slab_;
  int64_t used_ = 0, size_ = 0;  // of slab_, in floats
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_MEMORY_H_
