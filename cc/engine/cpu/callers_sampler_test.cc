// Tests which workload each caller of a CallersSampler runs, and that a sample
// is the mean over the callers.
#include "cc/engine/cpu/callers_sampler.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/cc/testing.h"

namespace ios::cpu {
namespace {

TEST(AllCallersDoTheSameWorkAtOnceAndTheSampleIsTheirMean) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::vector<std::vector<int>> works(3);
  std::atomic<int> present{0};
  CallersSampler sampler(3, 2, 1, [&](int caller, int work, int, double) {
    // Waits until all three callers run at the same time.
    ++present;
    while (present % 3 != 0) std::this_thread::yield();
    std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    works[caller].push_back(work);
    return StatusOr<double>(1 + caller + 10 * work);
  });
  for (int work : {0, 1, 0}) {
    const StatusOr<Sample> sample = sampler.Take(work, 5);
    EXPECT(sample.ok() && sample->ms == 2 + 10 * work);
  }
  EXPECT(threads.size() == 3);
  // A workload has one warm-up run before its first sample.
  for (const auto& of_caller : works) {
    EXPECT(of_caller == std::vector<int>({0, 0, 1, 1, 0}));
  }
}

TEST(LongWorkRunsLessOftenAndShortWorkForALeastTime) {
  std::vector<int> runs;
  std::vector<double> least;
  CallersSampler sampler(1, 2, 4, [&](int, int work, int number, double ms) {
    runs.push_back(number);
    least.push_back(ms);
    return StatusOr<double>(work == 0 ? 0.001 : 9);
  });
  EXPECT(sampler.Take(0, 7).ok() && sampler.Take(1, 7).ok());
  EXPECT(runs == std::vector<int>({4, 7, 4, 2}));
  EXPECT(least[0] == 0 && least[1] > 0 && least[2] == 0 && least[3] > 0);
}

TEST(AnErrorOfAnyCallerIsReturnedAndTheNextSampleIsTaken) {
  for (int failing : {0, 1}) {
    bool fails = true;
    CallersSampler sampler(
        2, 1, 1, [&](int caller, int, int, double) -> StatusOr<double> {
          if (fails && caller == failing) {
            return InvalidArgument("no memory");
          }
          return 1.0;
        });
    EXPECT_ERROR(sampler.Take(0, 1).status(), "no memory");
    fails = false;
    EXPECT(sampler.Take(0, 1).ok());
  }
}

}  // namespace
}  // namespace ios::cpu
