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

// Measures candidates of one block. Several callers run each candidate at the
// same time. Their number is Block::callers, or a smaller number that the
// device can run at once (see DeviceTraits::CallsAtOnce). The tensors contain
// random values and have the layout of the compiled block. All candidates of a
// caller share these tensors.
class Profiler {
 public:
  static StatusOr<std::unique_ptr<Profiler>> Create(
      const Block& block, const std::string& device,
      DeviceAllocator* allocator = nullptr);
  virtual ~Profiler() = default;

  // Returns `repeat` samples of the schedule's stages, which run in order. The
  // schedule may be a single stage (a candidate of the dynamic program) or all
  // stages of the block. It must contain all operators of the block if it names
  // algorithms or splits a batch. Only one call runs at a time.
  virtual StatusOr<std::vector<Sample>> Measure(
      const Schedule& schedule, const Measurement& measurement) = 0;

  // Measures several candidates in turn (A B A B …), so that a disturbance of
  // the machine affects all of them equally. result[i] has the samples of
  // candidates[i].
  virtual StatusOr<std::vector<std::vector<Sample>>> MeasureInterleaved(
      const std::vector<Schedule>& candidates,
      const Measurement& measurement) = 0;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PROFILER_H_
