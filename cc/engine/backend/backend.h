// Backend: the interface between the engine and a device. Code above this
// interface does not depend on the device.
#ifndef IOS_TF_CC_ENGINE_BACKEND_BACKEND_H_
#define IOS_TF_CC_ENGINE_BACKEND_BACKEND_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/backend/arrays.h"
#include "cc/engine/backend/device_traits.h"
#include "cc/engine/backend/measurement.h"
#include "cc/engine/backend/task_info.h"

namespace ios {

// A tensor as a kernel sees it: a sequence of pixels, each with shape.back()
// consecutive elements (its channels). The product of the other dimensions is
// the number of pixels. `pitch` is the number of elements from the start of one
// pixel to the start of the next. If it is larger than shape.back(), the view
// is a range of channels of a wider tensor.
struct TensorView {
  Shape shape;
  int64_t pitch = 0;
  // The address of the first element is a multiple of `alignment` elements (a
  // power of two) or of kDeviceAlignment bytes, whichever is less.
  int64_t alignment = kMaxAlignment;
  DataType dtype = DataType::kFloat32;

  static constexpr int64_t kMaxAlignment = 16;

  int64_t channels() const { return shape.back(); }
  int64_t pixels() const {
    return NumElements({shape.begin(), shape.end() - 1});
  }
  bool dense() const { return pitch == shape.back(); }
};

// Returns the largest power of two that divides `n`, at most
// TensorView::kMaxAlignment.
inline int64_t AlignmentOf(int64_t n) {
  int64_t alignment = TensorView::kMaxAlignment;
  while (n % alignment != 0) alignment /= 2;
  return alignment;
}

inline TensorView DenseView(const Shape& shape,
                            DataType dtype = DataType::kFloat32) {
  return {shape, shape.back(), TensorView::kMaxAlignment, dtype};
}

// A weight on the device, in every packed layout that its tasks need.
class Parameter {
 public:
  virtual ~Parameter() = default;
};

// One operator, compiled for certain shapes and a number of lanes.
class Task {
 public:
  virtual ~Task() = default;
};

// A task and its tensors, as indices into a table of tensors.
struct BoundTask {
  Task* task = nullptr;
  std::vector<int> inputs;
  int output = 0;
  int number = -1;  // index in ScheduleInfo::tasks, or -1 if there is no info
};

// A concurrent stage: its groups may run at the same time.
struct BoundStage {
  std::vector<std::vector<BoundTask>> groups;
  int lanes = 1;  // the number of lanes that the tasks were compiled for
};

// Adds `by` to all tensor indices of the stages.
void ShiftTensors(int by, std::vector<BoundStage>* stages);

struct TaskSpec {
  const Operator* op = nullptr;
  // The type in which the operator computes. The types of tensors are in their
  // views.
  DataType dtype = DataType::kFloat32;
  std::vector<TensorView> inputs;
  // Where one input of the operator comes from: tensors and, if the task
  // computes the input itself, an absorbed operator.
  struct Operand {
    // The number of entries of TaskSpec::inputs that belong to this input: the
    // parts of an absorbed concat or the terms of an absorbed sum, otherwise 1.
    int tensors = 1;
    // The operator that computes this input, if the task absorbs that operator
    // (see Absorbs), otherwise null.
    const Operator* absorbed = nullptr;
    std::vector<std::shared_ptr<Parameter>> parameters;  // of `absorbed`
  };
  std::vector<Operand> operands;
  TensorView output;
  std::vector<std::shared_ptr<Parameter>> parameters;  // see WeightShapes()
  // For a concat: whether each input already lies in its slice of the output.
  std::vector<bool> in_place;
  int lanes = 1;  // number of lanes that share the device while the task runs
  // Whether Backend::Compile may run several implementations on the device to
  // find the fastest one. That may take seconds, and disturbs other calls.
  bool may_measure = true;
  int64_t flops = 0;  // of the operator and of the operators that it absorbs

  // Returns whether an input tensor has no elements. CompiledBlock compiles a
  // task with an empty input only if the operator still has a result: a
  // convolution applies bias, residual and activation to zeros; a max pool, a
  // Pad and a GlobalPool fill their output with constants; a Concat copies its
  // other inputs.
  bool reads_nothing() const;
};

// A tensor's location: `offset` bytes into input `index` or output `index` of
// the call, or into the arena.
struct TensorLocation {
  enum Kind { kInput, kOutput, kArena };
  Kind kind = kArena;
  int index = 0;
  int64_t offset = 0;

  // Returns the address of this location in a call with these inputs, outputs
  // and arena. Callers must not write to inputs.
  void* In(const std::vector<const void*>& inputs,
           const std::vector<void*>& outputs, void* arena) const;
};

// A schedule of tasks with the locations of all tensors. Backend::Load turns it
// into an Execution.
struct BoundSchedule {
  std::vector<BoundStage> stages;
  std::vector<TensorLocation> tensors;  // indexed by the tasks of `stages`
  std::vector<int64_t> input_bytes, output_bytes;  // of a call
  int64_t arena_bytes = 0;
  std::vector<std::shared_ptr<void>> owners;  // keep the tasks alive
  std::shared_ptr<const ScheduleInfo> info;   // shared with traces
};

// Compiles the tasks of a schedule again, and binds the schedule to them.
using ScheduleBinding = std::function<StatusOr<BoundSchedule>()>;

// A bound schedule that is ready to run, with its own memory.
class Execution {
 public:
  virtual ~Execution() = default;

  // Runs the schedule once. On a GPU, the work is enqueued on `stream` (a
  // CUstream), and the pointers refer to device memory that is aligned to
  // kDeviceAlignment bytes. On the CPU, the work is done when the call returns.
  // Thread-safe.
  virtual Status Run(const std::vector<const void*>& inputs,
                     const std::vector<void*>& outputs, void* stream) = 0;

  // Returns the number of bytes of device memory that the execution uses now.
  // Weights are not counted. Thread-safe.
  virtual int64_t bytes() const = 0;
};

// One of the callers that a measurement simulates. Each caller has its own
// tasks and memory. candidates[i] has the stages of candidate i, and tensors[i]
// is the address of tensor i.
struct MeasuredCaller {
  std::vector<const std::vector<BoundStage>*> candidates;
  const std::vector<void*>* tensors = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Returns a text that names everything that latencies depend on: the device,
  // its libraries, and the revision of the backend. Developers increase the
  // revision when tasks become faster or slower or are measured in another way,
  // so that users' machines measure again.
  virtual std::string Fingerprint() const = 0;

  // Returns Unimplemented if the backend does not support the data types of the
  // block.
  virtual Status Supports(const Block& block) const = 0;

  virtual const DeviceTraits& traits() const = 0;

  virtual StatusOr<std::shared_ptr<Parameter>> MakeParameter(
      const ConstArray& array) = 0;
  virtual StatusOr<std::unique_ptr<Task>> Compile(const TaskSpec& spec) = 0;
  // Prepares a bound schedule for execution. If a task can serve only one call
  // at a time, the backend calls `bind` to get more tasks for calls at the same
  // time.
  virtual StatusOr<std::unique_ptr<Execution>> Load(BoundSchedule schedule,
                                                    ScheduleBinding bind) = 0;

  // Returns device memory that is aligned for any task, or ResourceExhausted if
  // there is not enough.
  virtual StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) = 0;
  // Returns the stream for calls whose arrays are in host memory.
  virtual void* HostCallStream() const { return nullptr; }
  // Upload and Download copy between host and device memory. The copy is
  // complete when the function returns. Download first waits for the work that
  // was enqueued on `stream`.
  virtual Status Upload(const void* host, int64_t bytes, void* device) = 0;
  virtual Status Download(const void* device, int64_t bytes, void* stream,
                          void* host) = 0;
  // Returns whether the device uses host memory, so that no copies are needed.
  virtual bool SharesHostMemory() const = 0;

  // Measures several candidates in turn (A B A B …). All callers run the same
  // candidate at the same time; there must be at least one caller. result[i]
  // has `repeat` samples of candidates[i] (see Measurement).
  virtual StatusOr<std::vector<std::vector<Sample>>> Measure(
      const std::vector<MeasuredCaller>& callers,
      const Measurement& measurement) = 0;
};

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_BACKEND_H_
