#include "cc/engine/cpu/callers_sampler.h"

#include <algorithm>
#include <utility>

namespace ios::cpu {
namespace {

// A sample takes at least kLeastSampleMs, and starts no further run after about
// kLongSampleMs.
constexpr double kLeastSampleMs = 2, kLongSampleMs = 20;

}  // namespace

CallersSampler::CallersSampler(int callers, int works, int warmup, Loop loop)
    : warmup_(warmup),
      loop_(std::move(loop)),
      expected_ms_(works),
      results_(callers - 1) {
  try {
    for (int i = 1; i < callers; ++i) {
      threads_.emplace_back([this, i] { ThreadLoop(i); });
    }
    meter_.emplace();
  } catch (...) {
    EndThreads();
    throw;
  }
}

StatusOr<Sample> CallersSampler::Take(int work, int number) {
  double& expected_ms = expected_ms_[work];
  if (expected_ms == 0) {
    IOS_ASSIGN_OR_RETURN(expected_ms, Run({work, std::max(warmup_, 1), 0}));
  }
  const int enough = static_cast<int>(
      std::clamp(kLongSampleMs / std::max(expected_ms, 1e-6), 1.0, 1e6));
  const ResourceUse before = meter_->Read();
  IOS_ASSIGN_OR_RETURN(const double ms,
                       Run({work, std::min(number, enough), kLeastSampleMs}));
  const ResourceUse after = meter_->Read();
  expected_ms = std::min(expected_ms, ms);
  return Sample{ms, IsDisturbed(before, after, Threads::kMany)};
}

StatusOr<double> CallersSampler::Run(const Round& round) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    round_ = round;
    ++rounds_;
    for (auto& result : results_) result.reset();
  }
  changed_.notify_all();
  const StatusOr<double> own = loop_(0, round.work, round.runs, round.least_ms);
  std::unique_lock<std::mutex> lock(mutex_);
  // Waits for all threads, even if this caller failed.
  changed_.wait(lock, [this] {
    return std::all_of(results_.begin(), results_.end(),
                       [](const auto& result) { return result.has_value(); });
  });
  IOS_ASSIGN_OR_RETURN(double sum, own);
  for (const auto& result : results_) {
    IOS_ASSIGN_OR_RETURN(const double ms, *result);
    sum += ms;
  }
  return sum / static_cast<double>(results_.size() + 1);
}

void CallersSampler::EndThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CallersSampler::ThreadLoop(int caller) {
  std::unique_lock<std::mutex> lock(mutex_);
  int64_t done = 0;
  while (true) {
    changed_.wait(lock, [&] { return ended_ || rounds_ > done; });
    if (ended_) return;
    done = rounds_;
    const Round round = round_;
    lock.unlock();
    StatusOr<double> result =
        loop_(caller, round.work, round.runs, round.least_ms);
    lock.lock();
    results_[caller - 1] = std::move(result);
    changed_.notify_all();
  }
}

}  // namespace ios::cpu
