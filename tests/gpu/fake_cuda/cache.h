// The fake GPU's L2 cache, which keeps the lines that were used last.
#ifndef IOS_TF_TESTS_FAKE_CUDA_CACHE_H_
#define IOS_TF_TESTS_FAKE_CUDA_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

namespace fake {

// A range of device memory.
struct Range {
  const void* begin = nullptr;
  size_t bytes = 0;
};

class Cache {
 public:
  static constexpr int64_t kLineBytes = 128;

  // Uses the lines of a range, one after the other. The cache then has at most
  // `capacity` bytes. Returns the number of bytes of the lines that were not in
  // the cache.
  int64_t Use(const Range& range, int64_t capacity);

 private:
  std::list<uintptr_t> lines_;  // latest first
  std::unordered_map<uintptr_t, std::list<uintptr_t>::iterator> places_;
};

}  // namespace fake

#endif  // IOS_TF_TESTS_FAKE_CUDA_CACHE_H_
