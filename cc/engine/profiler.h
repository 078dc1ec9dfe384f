// Profiler: measures stages and schedules of one block on a device.
#ifndef IOS_TF_CC_ENGINE_PROFILER_H_
#define IOS_TF_CC_ENGINE_PROFILER_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/backend/arrays.h"
#include "cc/engine/backend/measurement.h"

namespace ios {

// Tensors are laid out as in the compiled block. They hold random values and
// are shared by all candidates.
class Profiler {
 public:
  static StatusOr<std::unique_ptr<Profiler>> Create(
      const Block& block, const std::string& device,
      DeviceAllocator* allocator = nullptr);
  virtual ~Profiler() = default;

  // Returns `repeat` samples of the stages, which run in order. One stage is a
  // candidate of the dynamic program; all stages of a schedule are the whole
  // block. The stages need not cover the block unless the schedule names
  // algorithms or splits a batch. Calls are serialized.
  virtual StatusOr<std::vector<Sample>> Measure(
      const Schedule& schedule, const Measurement& measurement) = 0;

  // The same for several candidates, measured in turn (A B A B …), so that a
  // disturbance of the machine affects all of them equally. result[i] belongs
  // to candidates[i].
  virtual StatusOr<std::vector<std::vector<Sample>>> MeasureInterleaved(
      const std::vector<Schedule>& candidates,
      const Measurement& measurement) = 0;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PROFILER_H_
