// The parts of the system that the pool uses: shared words, locks, threads,
// sleep, the clock and the cores. The simulation of many cores
// (benchmarks/simulated_cores) replaces them by defining IOS_TF_SYSTEM.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_SYSTEM_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_SYSTEM_H_

#ifdef IOS_TF_SYSTEM
#include IOS_TF_SYSTEM
#else

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

namespace ios::cpu {

// Words that different threads change often are this many bytes apart, so that
// no core takes away the cache line that another one needs.
constexpr int kCacheLine = 64;

template <typename T>
using Atomic = std::atomic<T>;
using Mutex = std::mutex;

// Returns the calling thread's own object of type T.
template <typename T>
T& ThreadLocal() {
  thread_local T value;
  return value;
}

// Runs `function` on a new thread. Throws std::system_error if the system has
// no more threads.
template <typename F>
void StartThread(F function) {
  std::thread(std::move(function)).detach();
}

inline void YieldThread() { std::this_thread::yield(); }

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Calls `done` a few times. Returns true as soon as `done` returns true.
template <typename Done>
bool LookFor(Done done) {
  constexpr int kLooks = 16;
  for (int i = 0; i < kLooks; ++i) {
    if (done()) return true;
    Pause();
  }
  return false;
}

// Returns the time of a monotonic clock in nanoseconds.
int64_t Now();

// Sleeps until WakeAll(word), or not at all if the word is not `value`. May
// also return earlier.
void SleepWhile(Atomic<uint32_t>* word, uint32_t value);
void WakeAll(Atomic<uint32_t>* word);

// Returns the core that the calling thread is on, or -1 if it is not known.
inline int CurrentCore() { return sched_getcpu(); }

// Returns the number of NUMA nodes of the machine, and the node of a core.
// Nodes are numbered from 0. A core that is not known is on node 0.
int NodeCount();
int NodeOf(int core);

// Sets `cores` to the cores that the calling thread may use, or that the
// process may use. Returns false if they are not known.
bool CoresOfThread(cpu_set_t* cores);
bool CoresOfProcess(cpu_set_t* cores);

// Returns true for the main thread. Its affinity mask is also the mask that the
// system reports for the process.
bool IsMainThread();

// Limits the calling thread to `cores`, and moves it to one of them.
inline void SetCoresOfThread(const cpu_set_t& cores) {
  sched_setaffinity(0, sizeof(cores), &cores);
}

}  // namespace ios::cpu

#endif  // IOS_TF_SYSTEM

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_SYSTEM_H_
