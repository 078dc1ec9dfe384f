#include "cc/engine/host/float_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "cc/engine/host/host_memory.h"

namespace ios {
namespace {

constexpr size_t kCacheLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
// The size of a slab. It may be large, because pages that are never used take
// no memory.
constexpr int64_t kSlabFloats = int64_t{8} << 20;

size_t AlignUp(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

std::shared_ptr<float> AllocateFloats(int64_t floats) {
  if (!CheckHostMemory(floats * sizeof(float)).ok()) return nullptr;
  const size_t bytes = std::max<size_t>(floats * sizeof(float), 1);
  const size_t alignment = bytes >= kHugePage ? kHugePage : kCacheLine;
  const size_t size = AlignUp(bytes, alignment);
  void* data = std::aligned_alloc(alignment, size);
  if (data && alignment == kHugePage) {
    madvise(data, size, MADV_HUGEPAGE);  // a hint; ordinary pages work, too
  }
  return std::shared_ptr<float>(static_cast<float*>(data), std::free);
}

std::shared_ptr<float> FloatPool::Allocate(int64_t floats) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t rounded = AlignUp(floats, kCacheLine / sizeof(float));
  std::shared_ptr<float> slab = slab_.lock();
  if (!slab || used_ + rounded > size_) {
    const int64_t size = std::max(rounded, kSlabFloats);
    slab = AllocateFloats(size);
    if (!slab) return nullptr;
    slab_ = slab;
    used_ = 0;
    size_ = size;
  }
  // The piece shares ownership of its slab, so that the whole slab stays
  // allocated.
  std::shared_ptr<float> piece(slab, slab.get() + used_);
  used_ += rounded;
  return piece;
}

}  // namespace ios
