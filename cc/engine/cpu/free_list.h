// FreeList: objects that concurrent calls use in turn.
#ifndef IOS_TF_CC_ENGINE_CPU_FREE_LIST_H_
#define IOS_TF_CC_ENGINE_CPU_FREE_LIST_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cc/engine/cpu/threads/waiting.h"

namespace ios::cpu {

// Up to `most` objects that nobody uses now. Thread-safe, and without a lock: a
// child of fork() lacks only the objects that other threads of its parent were
// using.
template <typename T>
class FreeList {
 public:
  explicit FreeList(size_t most) : slots_(most) {}
  ~FreeList() {
    for (std::atomic<T*>& slot : slots_) delete slot.load();
  }
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;

  // Returns an object, or null if none is free. The object that was used last
  // comes first, because its memory is in the cache.
  std::unique_ptr<T> Take() {
    for (std::atomic<T*>& slot : slots_) {
      if (!slot.load(std::memory_order_relaxed)) continue;
      if (T* const object = slot.exchange(nullptr)) {
        return std::unique_ptr<T>(object);
      }
    }
    return nullptr;
  }

  bool empty() const {
    return std::none_of(
        slots_.begin(), slots_.end(),
        [](const std::atomic<T*>& slot) { return slot.load() != nullptr; });
  }

  // Destroys the object if there is no room.
  void Give(std::unique_ptr<T> object) {
    for (std::atomic<T*>& slot : slots_) {
      T* nothing = nullptr;
      if (slot.compare_exchange_strong(nothing, object.get())) {
        object.release();
        return;
      }
    }
  }

 private:
  std::vector<std::atomic<T*>> slots_;
};

// An object of a FreeList that is given back in the end. `given` is signalled
// then, unless it is null.
template <typename T>
class Lease {
 public:
  Lease(FreeList<T>* list, std::unique_ptr<T> object, Signal* given = nullptr)
      : list_(list), object_(std::move(object)), given_(given) {}
  Lease(Lease&&) = default;
  ~Lease() {
    if (!object_) return;
    list_->Give(std::move(object_));
    if (given_) given_->Advance();
  }

  T* get() const { return object_.get(); }
  T* operator->() const { return object_.get(); }
  T& operator*() const { return *object_; }

 private:
  FreeList<T>* const list_;
  std::unique_ptr<T> object_;
  Signal* const given_;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_FREE_LIST_H_
