// Measures how long work takes on the GPU: stages of schedules, and several
// implementations of a convolution, of which the fastest is chosen.
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
  // Work that is enqueued before each run. Its time is not measured. May be
  // empty.
  Enqueuer before;
  // If a first run of some work (including `before`) takes more than this many
  // times as long as the fastest work so far, the work is not sampled. 0 means
  // that all work is sampled.
  double give_up = 0;
};

// Takes samples of all works in turn. A sample is the time of one run in
// milliseconds, without the host's time to enqueue it and without the time to
// launch a CUDA graph. Work that cannot be captured into a graph is enqueued
// for each run. The GPU's clocks are raised first. Returns when all of the work
// is done.
StatusOr<std::vector<std::vector<double>>> SampleWork(
    const Device* device, const std::vector<Enqueuer>& works,
    const WorkMeasurement& measurement);

// The result of CompareCold().
struct Comparison {
  size_t fastest = 0;  // the index of the work
  // False if the samples vary, so that something else apparently used the GPU,
  // or if some work could not be told from the time of measuring it. Another
  // comparison may then have another result.
  bool is_certain = false;
};

// Finds the fastest work. Before each run, the GPU's cache contains only the
// data that `warm` reads: weights are not in the cache in practice, because a
// network has more of them than the cache can store. If no work can be told
// from the time of measuring it, the result is the first work.
StatusOr<Comparison> CompareCold(const Device* device,
                                 const std::vector<Enqueuer>& works,
                                 const Enqueuer& warm);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TIMING_MEASURE_WORK_H_
