// Measures how long work takes on the GPU: stages for the search, and
// alternative implementations to choose the fastest from.
#ifndef IOS_TF_CC_ENGINE_CUDA_TIMING_MEASURE_WORK_H_
#define IOS_TF_CC_ENGINE_CUDA_TIMING_MEASURE_WORK_H_

#include <cuda.h>

#include <functional>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Enqueues work on a stream, which may be captured.
using Enqueuer = std::function<Status(CUstream)>;

struct WorkMeasurement {
  int samples = 7;     // per work
  int least_runs = 1;  // per sample; more if the sample would be too short
  int warmup = 1;      // runs before the first sample, at least one
  // Work to enqueue before each run; its time does not count. May be empty.
  Enqueuer before;
  // Work is not sampled if one of its runs, including `before`, takes more than
  // this many times as long as the fastest work before it. 0 means that all
  // work is sampled.
  double give_up = 0;
};

// Samples the works in turn. Each sample is the milliseconds of one run. The
// host's time to enqueue and the time to launch a CUDA graph do not count. The
// GPU's clocks are raised first. Work that cannot be captured is enqueued for
// each run. Waits for all of the work.
StatusOr<std::vector<std::vector<double>>> SampleWork(
    const Device* device, const std::vector<Enqueuer>& works,
    const WorkMeasurement& measurement);

// Returns the median milliseconds of each work. Each run finds only the data
// that `warm` reads in the GPU's cache. Weights are not cached in practice: a
// network has more of them than the cache holds. The result is infinity if a
// run takes far longer than the fastest work's run.
StatusOr<std::vector<double>> MeasureCold(const Device* device,
                                          const std::vector<Enqueuer>& works,
                                          const Enqueuer& warm);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TIMING_MEASURE_WORK_H_
