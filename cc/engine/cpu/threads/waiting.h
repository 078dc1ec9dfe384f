// How threads of the engine wait for one another.
#ifndef IOS_TF_CC_ENGINE_CPU_THREADS_WAITING_H_
#define IOS_TF_CC_ENGINE_CPU_THREADS_WAITING_H_

#include <atomic>
#include <cstdint>

namespace ios::cpu {

// A thread may lose its core here, at the worst of moments: a test sees to
// that.
#ifdef IOS_TF_TEST_DELAYS
void MayDelay();
#else
inline void MayDelay() {}
#endif

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Nanoseconds of a clock that is never set.
int64_t Now();

// Whether threads of others want our cores, as far as is known: a thread of
// ours that did nothing but look at a variable lost its core not long ago.
bool Crowded();

// Counts events that threads wait for: a thread that spins sees the next one
// within nanoseconds, one that sleeps is woken.
class Signal {
 public:
  uint32_t value() const { return value_.load(); }
  bool anyone_sleeps() const { return sleepers_.load() > 0; }

  // The event's changes must have been stored before.
  void Advance() {
    value_.fetch_add(1);
    MayDelay();
    if (anyone_sleeps()) Wake();
  }

  // Returns when done() is true, which must follow some Advance(); gives
  // whether it slept. Spins as long as may_spin(), and no longer than pays.
  template <typename Done, typename MaySpin>
  bool Wait(Done done, MaySpin may_spin) {
    for (Spinning spinning; may_spin() && spinning.Continues();) {
      for (int i = 0; i < kLooks; ++i) {
        if (done()) return false;
        Pause();
      }
    }
    for (bool slept = false;; slept = true) {
      const uint32_t seen = value_.load();
      if (done()) return slept;
      // A thread that advances after this sees a sleeper; one that did before
      // has changed `seen`.
      sleepers_.fetch_add(1);
      MayDelay();
      Sleep(seen);
      sleepers_.fetch_sub(1);
    }
  }
  template <typename Done>
  bool Wait(Done done) {
    return Wait(done, [] { return true; });
  }

 private:
  static constexpr int kLooks = 16;  // between two looks at the clock

  // The time that one spin takes.
  class Spinning {
   public:
    bool Continues();

   private:
    int64_t start_ = 0, last_ = 0;  // nanoseconds
  };

  void Sleep(uint32_t seen);  // while value() is `seen`
  void Wake();

  std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_THREADS_WAITING_H_
