// Program: a region with its schedules and weights, ready to run on a device
// for any batch size. The IosRegion op and the C API use it.
#ifndef IOS_TF_CC_ENGINE_PROGRAM_H_
#define IOS_TF_CC_ENGINE_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/engine/backend/arrays.h"

namespace ios {

// A program keeps at most this many compiled executions, one per set of input
// shapes and schedule.
inline constexpr size_t kMaxExecutions = 64;

class Program {
 public:
  // Validates all arguments and creates a program. `block.inputs` has the
  // shapes for which the program is compiled here, on a GPU with each batch
  // size that has a schedule; calls may have other batch sizes, heights and
  // widths. `schedules` has at least one schedule, in which merge stages are
  // allowed. The weights are copied, once for all schedules. For `device` and
  // `allocator`, see GetBackend.
  static StatusOr<std::unique_ptr<Program>> Create(
      const Block& block, const Schedules& schedules, const Weights& weights,
      const std::string& device, DeviceAllocator* allocator = nullptr);
  virtual ~Program() = default;

  // Returns the number of bytes for the tensors inside of the block that one
  // call of a program with this schedule needs. The call has the shapes of
  // `block.inputs`. Does not create the program.
  static StatusOr<int64_t> ArenaBytes(const Block& block,
                                      const Schedule& schedule,
                                      const std::string& device);

  // Returns the load of the schedule that runs a call under `load`: the nearest
  // one that has a schedule (see NearestLoad and
  // DeviceTraits::CallsAtOnce).
  virtual Load ScheduledLoad(const Load& load) const = 0;

  virtual StatusOr<std::vector<Shape>> OutputShapes(
      const std::vector<Shape>& inputs) const = 0;

  // Compiles the program for calls of any number of callers with these input
  // shapes, unless that was done before. Thread-safe.
  virtual Status Prepare(const std::vector<Shape>& inputs) = 0;
  // Returns the input shapes for which the program is compiled, latest first.
  virtual std::vector<std::vector<Shape>> PreparedShapes() const = 0;

  // Runs the program on tensors in device memory. Inputs are [N,H,W,C] or
  // [N,C]. `outputs` are in the order of block.outputs, with the sizes of
  // OutputShapes(). The schedule is chosen for this call's load. Its number of
  // callers is the number of calls in progress, of all programs. On a GPU,
  // memory must be aligned to kDeviceAlignment bytes, and the work is enqueued
  // on `stream`, a CUstream. The first call with new shapes, or with another
  // schedule for them, compiles the program. Implementations of operators are
  // measured only for shapes that have a schedule, and for the shapes of the
  // first call that does not fail. Thread-safe.
  virtual Status Run(const std::vector<TensorArray>& inputs,
                     const std::vector<void*>& outputs, void* stream) = 0;

  // Does the same as Run() for tensors in host memory. The work is done when
  // the function returns.
  virtual Status RunOnHost(const std::vector<TensorArray>& inputs,
                           const std::vector<void*>& outputs) = 0;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PROGRAM_H_
