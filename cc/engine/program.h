// Program: a region with its schedule and weights, ready to run on a device for
// any batch size. What the IosRegion op, the C API and the profiler use.
#ifndef IOS_TF_CC_ENGINE_PROGRAM_H_
#define IOS_TF_CC_ENGINE_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"

namespace ios {

// A dense row-major float32 array on the host that somebody else owns.
struct ConstArray {
  const float* data = nullptr;
  Shape shape;
};

// A dense row-major tensor of a block's dtype that somebody else owns.
struct TensorArray {
  const void* data = nullptr;
  Shape shape;
};

// weights[i]: those of operator i, in the order of WeightShapes().
using Weights = std::vector<std::vector<ConstArray>>;

// Lends device memory: TensorFlow has taken all of a GPU's before anybody asks
// for some. Lives as long as what was made with it; safe to call from many
// threads.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;

  // Aligned to 256 bytes and used by nothing that was enqueued before; null if
  // there is not enough.
  virtual void* Allocate(int64_t bytes) = 0;
  // Nothing that was enqueued uses it any more.
  virtual void Free(void* memory) = 0;
};

class Program {
 public:
  // `block.inputs` give the shapes of one call; other calls may differ in
  // batch, height and width. `schedules` has one or more; merge stages are
  // lowered here. Weights are copied, once for all schedules. `device`,
  // `allocator`: see GetBackend. Validates everything.
  static StatusOr<std::unique_ptr<Program>> Create(
      const Block& block, const BatchSchedules& schedules,
      const Weights& weights, const std::string& device,
      DeviceAllocator* allocator = nullptr);
  virtual ~Program() = default;

  // The batch size of the schedule by which a batch of `batch` runs: that which
  // is nearest (see NearestBatch).
  virtual int64_t ScheduledBatch(int64_t batch) const = 0;

  virtual StatusOr<std::vector<Shape>> OutputShapes(
      const std::vector<Shape>& inputs) const = 0;

  // [N,H,W,C] or [N,C]; `outputs` in the order of block.outputs, of
  // OutputShapes(). Memory is the device's; on a GPU it is aligned to 16 bytes
  // and the work is enqueued on `stream`, a CUstream. Compiles on the first
  // call with these shapes. Safe to call from many threads at once.
  virtual Status Run(const std::vector<TensorArray>& inputs,
                     const std::vector<void*>& outputs, void* stream) = 0;

  // The same in host memory; done when it returns.
  virtual Status RunOnHost(const std::vector<TensorArray>& inputs,
                           const std::vector<void*>& outputs) = 0;
};

// `warmup` unmeasured runs, then `repeat` measurements of `number` runs each.
struct Measurement {
  int warmup = 2;
  int number = 3;
  int repeat = 3;
  // Above 0: every stage runs as it would beside other groups, on its part of a
  // device of so many lanes (at most; see LaneCount).
  int lanes = 0;
};

// The most lanes `device` has.
StatusOr<int> LaneCount(const std::string& device);

// Backend::LanesDivideDevice: true of CPU cores, false of CUDA streams.
StatusOr<bool> LanesDivideDevice(const std::string& device);

// Measures stages of one block on a device. Tensors are laid out as in the
// compiled block, hold random values, and are shared by all candidates.
class Profiler {
 public:
  static StatusOr<std::unique_ptr<Profiler>> Create(
      const Block& block, const std::string& device,
      DeviceAllocator* allocator = nullptr);
  virtual ~Profiler() = default;

  // Milliseconds of one run of `stages` in order (one stage: a candidate of the
  // dynamic program; all stages of a schedule: the whole block), `repeat` of
  // them. The stages need not cover the block. Calls are serialised.
  virtual StatusOr<std::vector<double>> Measure(
      const std::vector<Stage>& stages, const Measurement& measurement) = 0;

  // The same for several candidates, measured in turn (A B A B …), so that what
  // disturbs the machine disturbs all alike. result[i] belongs to
  // candidates[i].
  virtual StatusOr<std::vector<std::vector<double>>> MeasureInterleaved(
      const std::vector<std::vector<Stage>>& candidates,
      const Measurement& measurement) = 0;
};

// "Intel(R) Xeon(R) Processor, 2 cores, oneDNN 3.2.0, revision 1": what
// latencies on `device` depend on. Names the directory of the schedule cache.
StatusOr<std::string> DeviceFingerprint(const std::string& device);

// How many times a CUDA graph could not be made, and work was enqueued kernel
// by kernel, in this process.
int64_t FailedCaptures();

// One more directory to look in for the libraries of GPUs, where others are not
// named by the environment's IOS_TF_CUDA_LIBRARIES.
void AddLibraryDirectory(const std::string& directory);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PROGRAM_H_
