// ForkGuard: keeps fork() from copying half-updated state of the engine.
#ifndef IOS_TF_CC_ENGINE_HOST_FORK_GUARD_H_
#define IOS_TF_CC_ENGINE_HOST_FORK_GUARD_H_

#include <mutex>
#include <shared_mutex>

namespace ios {

// Blocks fork() while it exists, so that a child never sees half-updated state
// or a locked mutex. Keep the scope short, and do not nest.
class ForkGuard {
 public:
  ForkGuard();

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

// Returns the number of forks between this process and the process that loaded
// the engine. A fork increases the number in the child only.
int ForkGeneration();

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_HOST_FORK_GUARD_H_
