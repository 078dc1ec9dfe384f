// How threads of the engine wait for each other: they spin, then sleep.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_WAITING_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_WAITING_H_

#include <cstdint>

#include "cc/engine/cpu/threads/system.h"

namespace ios::cpu {

// Marks a place where it would be worst if the calling thread lost its core.
// Tests define this function so that it delays threads at these places.
#ifdef IOS_TF_TEST_DELAYS
void MayDelay();
#else
inline void MayDelay() {}
#endif

// Returns true if other processes seem to want our cores: one of our threads
// recently lost its core while it was spinning.
bool Crowded();

// Counts events that threads wait for. A spinning thread sees the next event
// within nanoseconds; a sleeping thread is woken.
class Signal {
 public:
  uint32_t value() const { return value_.load(); }
  bool anyone_sleeps() const { return sleepers_.load() > 0; }

  // Signals an event. The changes that belong to the event must have been
  // stored before.
  void Advance() {
    value_.fetch_add(1);
    MayDelay();
    if (anyone_sleeps()) WakeAll(&value_);
  }

  // Waits until done() is true; an Advance() must follow the change that makes
  // it true. Returns true if the thread slept. The thread spins as long as
  // may_spin() is true, but for at most kSpin (waiting.cc).
  template <typename Done, typename MaySpin>
  bool Wait(Done done, MaySpin may_spin) {
    for (Spinning spinning; may_spin() && spinning.Continues();) {
      if (LookFor(done)) return false;
    }
    for (bool slept = false;; slept = true) {
      const uint32_t seen = value_.load();
      if (done()) return slept;
      // A thread that calls Advance() after this line sees a sleeper. If it
      // called Advance() before, value_ differs from `seen` and
      // SleepWhile() returns.
      sleepers_.fetch_add(1);
      MayDelay();
      SleepWhile(&value_, seen);
      sleepers_.fetch_sub(1);
    }
  }
  template <typename Done>
  bool Wait(Done done) {
    return Wait(done, [] { return true; });
  }

 private:
  // Limits the time that one wait spins.
  class Spinning {
   public:
    bool Continues();

   private:
    int64_t start_ = 0, last_ = 0;  // nanoseconds
  };

  Atomic<uint32_t> value_{0};
  Atomic<uint32_t> sleepers_{0};
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_WAITING_H_
