#include "cc/engine/fork_guard.h"

#include <pthread.h>

#include <new>

namespace ios {
namespace {

std::shared_mutex& ForkMutex() {
  static auto* const mutex = [] {
    // The child is another thread than the one that has locked it: it begins
    // anew.
    pthread_atfork([] { ForkMutex().lock(); }, [] { ForkMutex().unlock(); },
                   [] { new (&ForkMutex()) std::shared_mutex; });
    return new std::shared_mutex;
  }();
  return *mutex;
}

}  // namespace

NoForkMeanwhile::NoForkMeanwhile() : lock_(ForkMutex()) {}

}  // namespace ios
