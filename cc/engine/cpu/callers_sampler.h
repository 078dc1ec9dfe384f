// Measures the latency of work that several callers do at the same time.
#ifndef IOS_TF_CC_ENGINE_CPU_CALLERS_SAMPLER_H_
#define IOS_TF_CC_ENGINE_CPU_CALLERS_SAMPLER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/backend/measurement.h"
#include "cc/engine/host/resource_use.h"

namespace ios::cpu {

// Takes latency samples of several workloads, which are numbered from 0. In a
// sample, all callers run the same workload at the same time, each on its own
// thread. Samples are long, so it hardly matters that callers start and end at
// slightly different times.
class CallersSampler {
 public:
  // Runs workload number `work` repeatedly on the thread of `caller`: at least
  // `runs` times, and until `least_ms` milliseconds have passed. Returns the
  // mean time of a run in milliseconds.
  using Loop = std::function<StatusOr<double>(int caller, int work, int runs,
                                              double least_ms)>;

  // Starts a thread for each caller except caller 0, which is the thread that
  // calls Take(). `works` is the number of workloads, and `warmup` the number
  // of unmeasured runs of each workload before its first sample. Throws
  // std::system_error if a thread cannot be started.
  CallersSampler(int callers, int works, int warmup, Loop loop);
  ~CallersSampler() { EndThreads(); }
  CallersSampler(const CallersSampler&) = delete;
  CallersSampler& operator=(const CallersSampler&) = delete;

  // Returns the mean latency of a run of `work`. Each caller does `number`
  // runs, more if they are short, and fewer if they are long.
  StatusOr<Sample> Take(int work, int number);

 private:
  // What every caller runs in one round.
  struct Round {
    int work = 0;
    int runs = 0;
    double least_ms = 0;
  };

  void EndThreads();
  void ThreadLoop(int caller);
  // Runs one round, and returns the mean of the callers' latencies in ms.
  StatusOr<double> Run(const Round& round);

  const int warmup_;
  const Loop loop_;
  // The expected time of a run of each workload, or 0 if it is not known.
  std::vector<double> expected_ms_;
  std::vector<std::thread> threads_;
  std::optional<ResourceMeter> meter_;  // created last, so it covers threads_

  std::mutex mutex_;  // for the members below
  std::condition_variable changed_;
  Round round_;
  int64_t rounds_ = 0;  // number of rounds that have begun
  bool ended_ = false;
  std::vector<std::optional<StatusOr<double>>> results_;  // of each thread
};

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_CALLERS_SAMPLER_H_
