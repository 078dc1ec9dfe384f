// SharedObjects: one object per key, which exists while a caller holds it.
#ifndef IOS_TF_CC_ENGINE_HOST_SHARED_OBJECTS_H_
#define IOS_TF_CC_ENGINE_HOST_SHARED_OBJECTS_H_

#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/engine/host/fork_guard.h"

namespace ios {

// A table of shared objects. Thread-safe. Callers create objects without
// holding the table's lock; if two callers create objects for one key at the
// same time, both get the object that was put in first.
template <typename Key, typename T>
class SharedObjects {
 public:
  // Returns the key's object, or null if there is none.
  std::shared_ptr<T> Find(const Key& key) {
    const ForkSafeLock lock(&mutex_);
    return Known(key);
  }

  // Returns all objects.
  std::vector<std::shared_ptr<T>> All() {
    const ForkSafeLock lock(&mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const auto& [key, object] : objects_) {
      if (auto known = object.lock()) all.push_back(std::move(known));
    }
    return all;
  }

  // Returns the object of `key`. If the key has none, stores and returns
  // `made`.
  std::shared_ptr<T> Put(const Key& key, std::shared_ptr<T> made) {
    const ForkSafeLock lock(&mutex_);
    if (auto known = Known(key)) return known;
    if (objects_.size() >= most_) {
      for (auto it = objects_.begin(); it != objects_.end();) {
        it = it->second.expired() ? objects_.erase(it) : std::next(it);
      }
      most_ = 2 * objects_.size() + kFew;
    }
    objects_[key] = made;
    return made;
  }

 private:
  std::shared_ptr<T> Known(const Key& key) const {
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : found->second.lock();
  }

  static constexpr size_t kFew = 1000;

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<T>> objects_;
  size_t most_ = kFew;  // the size at which unused entries are dropped
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_SHARED_OBJECTS_H_
