// Tests which counters show that other processes disturbed a sample.
#include "cc/engine/host/resource_use.h"

#include <chrono>
#include <thread>

#include "tests/cc/testing.h"

namespace ios {
namespace {

constexpr int64_t kMs = 1'000'000;

// The counters before and after two threads computed for 10 ms each, on
// separate cores.
struct Work {
  ResourceUse before, after;
  Work() {
    before.waited_ns = 0;
    before.spin_ns = after.spin_ns = 4000;
    after.wall_ns = 10 * kMs;
    after.cpu_ns = 20 * kMs;
    after.waited_ns = 20'000;
    after.starts = 2;
  }
  bool disturbed(Threads threads = Threads::kOnePerCore) const {
    return IsDisturbed(before, after, threads);
  }
};

TEST(WorkThatHasItsCoresIsUndisturbed) {
  EXPECT(!Work().disturbed());
  EXPECT(!Work().disturbed(Threads::kMany));
  // One thread works, with an involuntary switch to a kernel thread that took
  // no time.
  Work serial;
  serial.after.cpu_ns = 10 * kMs;
  serial.after.switches = 1;
  EXPECT(!serial.disturbed());
}

TEST(WaitingForATimeSliceOfAnotherProcessDisturbs) {
  Work waits;
  waits.after.waited_ns = 3 * kMs;
  EXPECT(waits.disturbed() && waits.disturbed(Threads::kMany));
  // A wait of 3 ms in 100 ms is not a disturbance.
  waits.after.wall_ns = 100 * kMs;
  waits.after.cpu_ns = 200 * kMs;
  EXPECT(!waits.disturbed());
}

TEST(ThreadsOfTheProcessThatWakeEachOtherDoNotDisturbIt) {
  Work wakes;  // TensorFlow's pools: hundreds of short waits
  wakes.after.starts = 350;
  wakes.after.waited_ns = 15 * kMs;
  EXPECT(!wakes.disturbed(Threads::kMany));
  wakes.after.waited_ns = 90 * kMs;
  EXPECT(wakes.disturbed(Threads::kMany));
  EXPECT(!wakes.disturbed(Threads::kCompeting));
}

TEST(LessProcessorTimeThanOneThreadNeedsDisturbs) {
  Work waits;
  waits.after.cpu_ns = 7 * kMs;
  EXPECT(waits.disturbed() && waits.disturbed(Threads::kMany));
  EXPECT(!waits.disturbed(Threads::kWaiting));
  EXPECT(!waits.disturbed(Threads::kCompeting));
}

TEST(WithoutSchedulerStatisticsAnInvoluntarySwitchDisturbs) {
  Work work;
  work.before.waited_ns = work.after.waited_ns = -1;
  EXPECT(!work.disturbed());
  work.after.switches = 1;
  EXPECT(work.disturbed());
  // With more threads than cores, waits are not a disturbance: TensorFlow's
  // threads take cores from each other.
  EXPECT(!work.disturbed(Threads::kMany));
}

TEST(QuotasHypervisorsAndClocksDisturb) {
  Work throttled, stolen, slower, faster;
  throttled.after.throttled_ns = 1;
  EXPECT(throttled.disturbed(Threads::kWaiting));
  EXPECT(throttled.disturbed(Threads::kCompeting));
  stolen.after.stolen_ns = 10 * kMs;
  EXPECT(stolen.disturbed());
  stolen.after.wall_ns = stolen.after.cpu_ns = 1000 * kMs;
  EXPECT(!stolen.disturbed());
  slower.after.spin_ns = 5000;
  faster.after.spin_ns = 3000;
  EXPECT(slower.disturbed() && faster.disturbed());
  slower.after.spin_ns = 4200;
  EXPECT(!slower.disturbed());
}

TEST(TheSystemsFilesAreRead) {
  EXPECT(ThrottledNs("nr_periods 5\nnr_throttled 2\nthrottled_time 1234\n",
                     1) == 1234);
  EXPECT(ThrottledNs("usage_usec 9\nnr_throttled 2\nthrottled_usec 12\n", 2) ==
         12'000);
  EXPECT(ThrottledNs("", 2) == 0);
  EXPECT(StolenNs("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n",
                  100) == 80 * kMs);
  EXPECT(StolenNs("cpu  1 2 3", 100) == 0);
}

TEST(AMeterCountsWhatItsThreadsCompute) {
  ResourceMeter meter;
  const ResourceUse before = meter.Read();
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start <
         std::chrono::milliseconds(2)) {
  }
  const ResourceUse after = meter.Read();
  EXPECT(after.wall_ns - before.wall_ns >= 2 * kMs);
  EXPECT(after.cpu_ns > before.cpu_ns);
  EXPECT(before.spin_ns > 0);
}

}  // namespace
}  // namespace ios
