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

// Stores up to `most` objects that are not in use. Thread-safe without a lock,
// so that fork() can happen at any time: the child lacks only the objects that
// other threads of the parent process were using.
template <typename T>
class FreeList {
 public:
  explicit FreeList(size_t most) : slots_(most) {}
  ~FreeList() {
    for (std::atomic<T*>& slot : slots_) delete slot.load();
  }
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;

  // Returns an object, or null if none is free. Prefers the object that was
  // used last, because its memory is in the cache.
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

  // Gives an object back. Destroys the object if the list is full.
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

// An object taken from a FreeList, which the destructor gives back. The
// destructor then signals `given`, unless it is null.
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
