// ForkGuard and ForkSafeLock: keep fork() from copying half-updated state of
// the engine.
#ifndef IOS_TF_CC_ENGINE_HOST_FORK_GUARD_H_
#define IOS_TF_CC_ENGINE_HOST_FORK_GUARD_H_

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

namespace ios {

// Blocks fork() while it exists, so that a child never sees half-updated state
// or a locked mutex. Keep the scope short, and do not nest.
class ForkGuard {
 public:
  ForkGuard();

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

// Locks a mutex, and blocks fork() while the mutex is locked.
class ForkSafeLock {
 public:
  explicit ForkSafeLock(std::mutex* mutex)
      : no_fork_(std::in_place), lock_(*mutex) {}

  // Unlocks the mutex. Unless `allow_fork`, fork() stays blocked.
  void Unlock(bool allow_fork = true) {
    lock_.unlock();
    if (allow_fork) no_fork_.reset();
  }
  void Lock() {
    if (!no_fork_) no_fork_.emplace();
    lock_.lock();
  }

 private:
  std::optional<ForkGuard> no_fork_;
  std::unique_lock<std::mutex> lock_;  // is destroyed before no_fork_
};

// Returns the number of forks between this process and the process that loaded
// the engine. A fork increases the number in the child only.
int ForkGeneration();

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_FORK_GUARD_H_
