// Measures how long work takes on the GPU: stages of schedules, and several
// implementations of a convolution, of which the fastest is chosen.
#ifndef IOS_TF_CC_ENGINE_CUDA_TIMING_MEASURE_WORK_H_
#define IOS_TF_CC_ENGINE_CUDA_TIMING_MEASURE_WORK_H_

#include <cuda.h>

#include <functional>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/backend/measurement.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Enqueues work on a stream, which may be captured.
using Enqueuer = std::function<Status(CUstream)>;

struct WorkMeasurement {
  int samples = 7;     // per workload
  int least_runs = 1;  // per sample; more if the sample would be too short
  int warmup = 1;      // runs before the first sample, at least one
  // Work that is enqueued before each run. Its time is not measured. May be
  // empty.
  Enqueuer before;
  // If the first timed run of a workload (including `before`) takes more than
  // this many times as long as the fastest workload so far, the workload is not
  // sampled. 0 means that all workloads are sampled.
  double give_up = 0;
};

// Takes samples of all workloads in turn. A sample is the time of one run in
// milliseconds. It includes neither the host's time to enqueue the run nor the
// time to launch a CUDA graph. A workload that cannot be captured into a graph
// is enqueued for each run. The GPU's clocks are raised first. Returns when all
// of the work is done. A sample that is clearly longer than the shortest one of
// its workload is marked as disturbed: other work probably used the GPU.
StatusOr<std::vector<std::vector<Sample>>> SampleWork(
    const Device* device, const std::vector<Enqueuer>& works,
    const WorkMeasurement& measurement);

// The result of CompareCold().
struct Comparison {
  size_t fastest = 0;  // the index of the fastest workload
  // False if another comparison may have another result. This is so if the
  // samples vary, probably because other programs used the GPU, or if the time
  // of a workload is too short compared with the time that measuring takes.
  bool is_certain = false;
};

// Finds the fastest of several workloads, with weights that are not in the
// GPU's L2 cache: before each run, this cache contains only the data that
// `warm` reads. In practice, weights are not in the L2 cache, because a network
// has more weights than fit there. If all workloads are too short to be
// measured, the result is the first workload.
StatusOr<Comparison> CompareCold(const Device* device,
                                 const std::vector<Enqueuer>& works,
                                 const Enqueuer& warm);

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_TIMING_MEASURE_WORK_H_
