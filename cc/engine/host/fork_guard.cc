#include "cc/engine/host/fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <new>

namespace ios {
namespace {

std::atomic<int> generation{0};

std::shared_mutex& ForkMutex() {
  static auto* const mutex = [] {
    // The child constructs a new mutex instead of unlocking it, because its
    // only thread is not the thread that locked the mutex.
    pthread_atfork([] { ForkMutex().lock(); }, [] { ForkMutex().unlock(); },
                   [] {
                     new (&ForkMutex()) std::shared_mutex;
                     ++generation;
                   });
    return new std::shared_mutex;
  }();
  return *mutex;
}

}  // namespace

ForkGuard::ForkGuard() : lock_(ForkMutex()) {}

int ForkGeneration() {
  ForkMutex();  // the first call of ForkMutex() begins to count forks
  return generation.load();
}

}  // namespace ios
