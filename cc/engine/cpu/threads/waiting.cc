#include "cc/engine/cpu/threads/waiting.h"

namespace ios::cpu {
namespace {

// All times are in nanoseconds.

// The longest time that a thread spins: normally, and while Crowded() is true.
// The pauses between the sections of a run (see lanes.h) are shorter than
// kSpin.
constexpr int64_t kSpin = 200'000;
constexpr int64_t kSpinCrowded = 5'000;
// If a spinning thread reads the clock twice and more time than this has
// passed, the thread had lost its core. Crowded() is then true for kCrowdedFor.
constexpr int64_t kLost = 300'000;
constexpr int64_t kCrowdedFor = 50'000'000;

Atomic<int64_t> crowded_until{0};

bool CrowdedAt(int64_t now) {
  return now < crowded_until.load(std::memory_order_relaxed);
}

}  // namespace

bool Crowded() { return CrowdedAt(Now()); }

bool Signal::Spinning::Continues() {
  if (start_ == 0) {  // the first checks do not read the clock
    start_ = -1;
    return true;
  }
  const int64_t now = Now();
  if (start_ == -1) {
    start_ = last_ = now;
    return true;
  }
  if (now - last_ > kLost) {
    crowded_until.store(now + kCrowdedFor, std::memory_order_relaxed);
  }
  last_ = now;
  return now - start_ < (CrowdedAt(now) ? kSpinCrowded : kSpin);
}

}  // namespace ios::cpu
