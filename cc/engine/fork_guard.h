// NoForkMeanwhile: keeps fork() from copying half-changed state of the engine.
#ifndef IOS_TF_CC_ENGINE_FORK_GUARD_H_
#define IOS_TF_CC_ENGINE_FORK_GUARD_H_

#include <mutex>
#include <shared_mutex>

namespace ios {

// While one lives, fork() waits: of what its thread changes, and of the mutexes
// it holds, the child would have a half. Not for what takes long, nor one
// inside another.
class NoForkMeanwhile {
 public:
  NoForkMeanwhile();

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_FORK_GUARD_H_
