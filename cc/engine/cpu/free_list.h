// FreeList: objects that concurrent calls use in turn.
#ifndef IOS_TF_CC_ENGINE_CPU_FREE_LIST_H_
#define IOS_TF_CC_ENGINE_CPU_FREE_LIST_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cc/engine/cpu/threads/waiting.h"
#include "cc/engine/host/fork_guard.h"

namespace ios::cpu {

// Stores up to `most` objects that are not in use. Thread-safe without a lock,
// so that fork() can happen at any time: the child lacks only the objects that
// other threads of the parent process were using.
template <typename T>
class FreeList {
 public:
  explicit FreeList(size_t most) : slots_(most) {}
  ~FreeList() {
    for (PaddedSlot& slot : slots_) delete slot.object.load();
  }
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;

  // Returns an object, or null if none is free. Prefers the object that this
  // core used last, because its memory is in the core's cache.
  std::unique_ptr<T> Take() {
    const size_t first = FirstSlot();
    for (size_t i = 0; i < slots_.size(); ++i) {
      Atomic<T*>& slot = Slot(first + i);
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
        [](const PaddedSlot& slot) { return slot.object.load() != nullptr; });
  }

  // Gives an object back. Destroys the object if the list is full.
  void Give(std::unique_ptr<T> object) {
    const size_t first = FirstSlot();
    for (size_t i = 0; i < slots_.size(); ++i) {
      T* nothing = nullptr;
      Atomic<T*>& slot = Slot(first + i);
      if (slot.load(std::memory_order_relaxed)) continue;
      if (slot.compare_exchange_strong(nothing, object.get())) {
        object.release();
        return;
      }
    }
  }

 private:
  struct alignas(kCacheLine) PaddedSlot {
    Atomic<T*> object{nullptr};
  };

  // Returns the slot where the search begins. It differs between cores, so that
  // cores do not take the cache lines of slots from each other.
  static size_t FirstSlot() { return std::max(0, CurrentCore()); }
  Atomic<T*>& Slot(size_t i) { return slots_[i % slots_.size()].object; }

  std::vector<PaddedSlot> slots_;
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

// Up to `most` identical objects, each of which serves one call at a time.
// Objects are created when calls need them. Thread-safe.
template <typename T>
class Copies {
 public:
  explicit Copies(int most) : most_(most), free_(most) {}

  int most() const { return most_; }
  // Returns the number of copies.
  int made() const { return made_.load(); }

  // Adds the first copy.
  void Add(std::unique_ptr<T> copy) {
    made_.fetch_add(1);
    free_.Give(std::move(copy));
  }

  // Returns a free copy, or creates a copy with make(), which returns null if
  // there is not enough memory. If no further copy can be created, waits until
  // an existing copy is free. If no copy exists at all, the lease is empty.
  template <typename Make>
  Lease<T> Take(Make make) {
    // A child of fork() counts copies from 0 again, because the copies that
    // other threads of the parent were using are lost.
    const int generation = ForkGeneration();
    if (generation_.load() != generation &&
        generation_.exchange(generation) != generation) {
      made_.store(0);
    }
    while (true) {
      if (std::unique_ptr<T> free = free_.Take()) {
        return Lease<T>(&free_, std::move(free), &freed_);
      }
      int made = made_.load();
      if (made < most_) {
        if (!made_.compare_exchange_strong(made, made + 1)) continue;
        std::unique_ptr<T> copy = make();
        if (copy || made == 0) {
          if (!copy) made_.fetch_sub(1);
          return Lease<T>(&free_, std::move(copy), &freed_);
        }
        made_.fetch_sub(1);
      }
      freed_.Wait([this] { return !free_.empty(); });
    }
  }

 private:
  const int most_;
  Atomic<int> made_{0}, generation_{ForkGeneration()};
  FreeList<T> free_;
  Signal freed_;
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_FREE_LIST_H_
