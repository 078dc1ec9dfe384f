// SharedObjects: one object for each key, while anybody has it.
#ifndef IOS_TF_CC_ENGINE_SHARED_OBJECTS_H_
#define IOS_TF_CC_ENGINE_SHARED_OBJECTS_H_

#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "cc/engine/fork_guard.h"

namespace ios {

// Thread-safe. Nothing is locked while an object is made: of two that are made
// of one key at once, both callers get the first that was put in.
template <typename Key, typename T>
class SharedObjects {
 public:
  // Null if nobody has one.
  std::shared_ptr<T> Find(const Key& key) {
    const NoForkMeanwhile no_fork;
    std::lock_guard<std::mutex> lock(mutex_);
    return Known(key);
  }

  // That of the key, which is `made` if nobody has one.
  std::shared_ptr<T> Put(const Key& key, std::shared_ptr<T> made) {
    const NoForkMeanwhile no_fork;
    std::lock_guard<std::mutex> lock(mutex_);
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
  size_t most_ = kFew;  // before those that nobody has any more are dropped
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_SHARED_OBJECTS_H_
