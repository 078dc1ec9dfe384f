// Replaces cc/engine/cpu/threads/system.h in the simulation: defines the same
// names for the simulated machine of machine.h. A word takes as much memory as
// a real one, so words share cache lines as they do in the engine.
#ifndef IOS_TF_BENCHMARKS_SIMULATED_CORES_VIRTUAL_SYSTEM_H_
#define IOS_TF_BENCHMARKS_SIMULATED_CORES_VIRTUAL_SYSTEM_H_

#include <sched.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "benchmarks/simulated_cores/machine.h"

namespace ios::cpu {

constexpr int kCacheLine = 64;

// The functions get the source line of their call by the arguments `file` and
// `line`.
template <typename T>
class Atomic {
 public:
  constexpr Atomic(T value = T()) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = {}, const char* file = __builtin_FILE(),
         int line = __builtin_LINE()) const {
    simulated::Machine::Get()->Access(this, false, file, line);
    return value_;
  }
  void store(T value, std::memory_order = {},
             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Access(true, file, line);
    value_ = value;
  }
  T exchange(T value, std::memory_order = {},
             const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    Access(true, file, line);
    return std::exchange(value_, value);
  }
  T fetch_add(T value, std::memory_order = {},
              const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
    Access(true, file, line);
    return std::exchange(value_, value_ + value);
  }
  T fetch_sub(T value, std::memory_order = {},
              const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
    Access(true, file, line);
    return std::exchange(value_, value_ - value);
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order = {},
                               std::memory_order = {},
                               const char* file = __builtin_FILE(),
                               int line = __builtin_LINE()) {
    Access(true, file, line);
    if (value_ == expected) {
      value_ = value;
      return true;
    }
    expected = value_;
    return false;
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order = {},
                             std::memory_order = {},
                             const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
    return compare_exchange_strong(expected, value, {}, {}, file, line);
  }

 private:
  void Access(bool writes, const char* file, int line) {
    simulated::Machine::Get()->Access(this, writes, file, line);
  }
  T value_;
};

inline int64_t Now() { return simulated::Machine::Get()->ReadClock(); }

inline void SleepWhile(Atomic<uint32_t>* word, uint32_t value) {
  simulated::Machine::Get()->SleepWhile(word,
                                        [=] { return word->load() == value; });
}

inline void WakeAll(Atomic<uint32_t>* word) {
  simulated::Machine::Get()->Wake(word, 1 << 30);
}

// The lock of glibc. 0 is free, 1 is locked, 2 is locked with threads that
// wait.
class Mutex {
 public:
  void lock() {
    uint32_t free = 0;
    if (state_.compare_exchange_strong(free, 1)) return;
    while (state_.exchange(2) != 0) SleepWhile(&state_, 2);
  }
  void unlock() {
    if (state_.exchange(0) == 2) simulated::Machine::Get()->Wake(&state_, 1);
  }

 private:
  Atomic<uint32_t> state_{0};
  [[maybe_unused]] char rest_[sizeof(std::mutex) - sizeof(state_)];
};

template <typename T>
T& ThreadLocal() {
  std::shared_ptr<void>& own = simulated::Machine::Get()->local();
  if (!own) own = std::make_shared<T>();
  return *static_cast<T*>(own.get());
}

template <typename F>
void StartThread(F function) {
  simulated::Machine::Get()->Start(std::move(function));
}

inline void YieldThread() { simulated::Machine::Get()->YieldCore(); }

template <typename Done>
bool LookFor(Done done) {
  if (done()) return true;
  simulated::Machine::Get()->WaitForChange();
  return done();
}

inline int CurrentCore() { return simulated::Machine::Get()->core(); }

inline int NodeCount() { return simulated::Machine::Get()->nodes(); }
inline int NodeOf(int core) { return simulated::Machine::Get()->NodeOf(core); }

inline bool CoresOfProcess(cpu_set_t* cores) {
  CPU_ZERO(cores);
  for (int i = 0; i < simulated::Machine::Get()->cores(); ++i) {
    CPU_SET(i, cores);
  }
  return true;
}

inline bool CoresOfThread(cpu_set_t* cores) { return CoresOfProcess(cores); }
inline bool IsMainThread() { return false; }

inline void SetCoresOfThread(const cpu_set_t& cores) {
  simulated::Machine::Get()->MoveTo(cores);
}

}  // namespace ios::cpu

#endif  // IOS_TF_BENCHMARKS_SIMULATED_CORES_VIRTUAL_SYSTEM_H_
