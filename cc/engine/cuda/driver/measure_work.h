// How long work takes on the GPU: stages for the search, and ways to do the
// same to choose among.
#ifndef IOS_TF_CC_ENGINE_CUDA_DRIVER_MEASURE_WORK_H_
#define IOS_TF_CC_ENGINE_CUDA_DRIVER_MEASURE_WORK_H_

#include <cuda.h>

#include <functional>
#include <memory>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/cuda/cudnn/convolution_spec.h"
#include "cc/engine/cuda/cudnn/cudnn_graph.h"
#include "cc/engine/cuda/driver/device.h"

namespace ios::cuda {

// Enqueues work on a stream, which may be captured.
using Enqueuer = std::function<Status(CUstream)>;

struct WorkMeasurement {
  int samples = 7;  // of each work
  int least_runs =
      1;  // in a sample, which has more of them until it is long enough
  int warmup = 1;  // runs before, at least one
  // Work that comes before each run and does not count; may be empty.
  Enqueuer before;
  // Work has no samples if a run of it, with what comes before, takes so many
  // times as long as that of the fastest before it; 0: all work has.
  double give_up = 0;
};

// Samples of each work, taken in turn: the milliseconds of a run. The host's
// time to enqueue does not count, nor what it takes to launch a CUDA graph; the
// GPU's clocks are up. Work that cannot be captured is enqueued for each run.
// Waits for all of it.
StatusOr<std::vector<std::vector<double>>> SampleWork(
    const Device* device, const std::vector<Enqueuer>& works,
    const WorkMeasurement& measurement);

// The median of each work's samples, of runs that find in the GPU's cache what
// `warm` reads, and nothing else: as weights are of which a network has more
// than the cache holds. Infinity where a run takes far longer than the
// fastest's.
StatusOr<std::vector<double>> MeasureCold(const Device* device,
                                          const std::vector<Enqueuer>& works,
                                          const Enqueuer& warm);

// Random tensors of a spec on the device: power, and so speed, depends on
// values.
class ConvolutionTensors {
 public:
  static StatusOr<ConvolutionTensors> Create(const Device* device,
                                             const ConvolutionSpec& spec);

  Status MakeWorkspace(int64_t bytes);
  // Reads what operators before this one have just written.
  Status ReadActivations(CUstream stream) const;
  const ConvolutionPointers& pointers() const { return pointers_; }

 private:
  ConvolutionTensors(const Device* device, DataType dtype);

  StatusOr<void*> Make(const TensorView& view);

  const Device* device_;
  DataType dtype_;
  std::vector<char> pattern_;
  std::vector<std::shared_ptr<void>> memory_;
  ConvolutionPointers pointers_;
  int64_t input_bytes_ = 0, residual_bytes_ = 0;
  void* read_ = nullptr;  // where what is read goes
};

}  // namespace ios::cuda

#endif  // IOS_TF_CC_ENGINE_CUDA_DRIVER_MEASURE_WORK_H_
