// Program: a region with its schedule and weights, ready to run on a device for
// any batch size. What the IosRegion op and the C API use.
#ifndef IOS_TF_CC_ENGINE_PROGRAM_H_
#define IOS_TF_CC_ENGINE_PROGRAM_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/arrays.h"

namespace ios {

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

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PROGRAM_H_
