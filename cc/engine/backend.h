// Backend: the interface between the engine and a device. Nothing above it
// knows the device.
#ifndef IOS_TF_CC_ENGINE_BACKEND_H_
#define IOS_TF_CC_ENGINE_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/data_type.h"
#include "cc/core/status.h"
#include "cc/engine/arrays.h"
#include "cc/engine/device_traits.h"
#include "cc/engine/measurement.h"

namespace ios {

class CompiledBlock;

// A tensor as a kernel sees it: pixels (all dimensions but the last) of
// shape.back() elements each, `pitch` elements from one pixel to the next. A
// pitch above shape.back() is a range of channels of a wider tensor.
struct TensorView {
  Shape shape;
  int64_t pitch = 0;
  // The first element's address is a multiple of so many elements (a power of
  // two), or at least of 16 bytes.
  int64_t alignment = kMaxAlignment;

  static constexpr int64_t kMaxAlignment = 16;

  int64_t channels() const { return shape.back(); }
  int64_t pixels() const {
    return NumElements({shape.begin(), shape.end() - 1});
  }
  bool dense() const { return pitch == shape.back(); }
};

// The largest power of two up to TensorView::kMaxAlignment that divides `n`.
inline int64_t AlignmentOf(int64_t n) {
  int64_t alignment = TensorView::kMaxAlignment;
  while (n % alignment != 0) alignment /= 2;
  return alignment;
}

inline TensorView DenseView(const Shape& shape) {
  return {shape, shape.back()};
}

// A weight on the device, in every packed layout its tasks have asked for.
class Parameter {
 public:
  virtual ~Parameter() = default;
};

// One operator, compiled for shapes and a number of lanes.
class Task {
 public:
  virtual ~Task() = default;
};

// A task and the tensors it touches, as indices into a table of tensors.
struct BoundTask {
  Task* task = nullptr;
  std::vector<int> inputs;
  int output = 0;
};

// A concurrent stage: its groups may run at the same time.
struct BoundStage {
  std::vector<std::vector<BoundTask>> groups;
  int lanes = 1;  // that its tasks were compiled for
};

// The same stages where their tensors lie `by` further on in the table.
void ShiftTensors(int by, std::vector<BoundStage>* stages);

struct TaskSpec {
  const Operator* op = nullptr;
  DataType dtype = DataType::kFloat32;  // of every tensor
  std::vector<TensorView> inputs;
  // Of each of the operator's inputs, how many of `inputs` make it up: the
  // pieces of a concat or the terms of a sum, whichever the operator reads;
  // else 1.
  std::vector<int> pieces;
  TensorView output;
  std::vector<std::shared_ptr<Parameter>> parameters;  // of WeightShapes()
  // Of concats: inputs that lie in their slice of the output already.
  std::vector<bool> in_place;
  // The 1x1 convolution that makes the operator's first input, where the task
  // is to compute it: inputs[0] is what it reads.
  const Operator* product = nullptr;
  std::vector<std::shared_ptr<Parameter>> product_parameters;
  int lanes = 1;  // that share the device while the task runs

  // Whether a tensor that it reads has no elements. CompiledBlock has such
  // tasks compiled only of operators that make something of that: of a
  // convolution the bias, residual and activation of zeros are left; a Pad and
  // a GlobalPool fill their output; a Concat has other inputs.
  bool reads_nothing() const;
};

// A tensor's location: `offset` bytes into input `index` or output `index` of
// the call, or into the arena.
struct TensorLocation {
  enum Kind { kInput, kOutput, kArena };
  Kind kind = kArena;
  int index = 0;
  int64_t offset = 0;

  // The address; inputs are only ever read.
  void* In(const std::vector<const void*>& inputs,
           const std::vector<void*>& outputs, void* arena) const;
};

// A schedule of tasks whose tensors have their places: what an Execution is
// made of.
struct BoundSchedule {
  std::vector<BoundStage> stages;
  std::vector<TensorLocation> tensors;  // what the stages' indices mean
  std::vector<int64_t> input_bytes, output_bytes;  // of a call
  int64_t arena_bytes = 0;
  std::vector<std::shared_ptr<CompiledBlock>> blocks;  // that own the tasks
};

// A bound schedule that is ready to run, with memory of its own.
class Execution {
 public:
  virtual ~Execution() = default;

  // Runs the schedule once. On a GPU it is enqueued on `stream` (a CUstream),
  // and the pointers are device memory aligned to 16 bytes; on the CPU it is
  // done when the call returns. Safe to call from many threads at once.
  virtual Status Run(const std::vector<const void*>& inputs,
                     const std::vector<void*>& outputs, void* stream) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Names all that latencies depend on: the device, its libraries, and the
  // revision of the backend, which counts up when tasks become faster or
  // slower, or are measured in another way, so that all is measured anew.
  virtual std::string Fingerprint() const = 0;

  // Unimplemented unless the backend computes in `dtype`.
  virtual Status Supports(DataType dtype) const = 0;

  virtual const DeviceTraits& traits() const = 0;

  virtual StatusOr<std::shared_ptr<Parameter>> MakeParameter(
      const ConstArray& array) = 0;
  virtual StatusOr<std::unique_ptr<Task>> Compile(const TaskSpec& spec) = 0;
  virtual StatusOr<std::unique_ptr<Execution>> Load(BoundSchedule schedule) = 0;

  // Device memory, aligned for any task; ResourceExhausted if there is not
  // enough.
  virtual StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes) = 0;
  // Copies between host and device memory, done when they return; a download
  // waits for what was enqueued on `stream` before.
  virtual Status Upload(const void* host, int64_t bytes, void* device) = 0;
  virtual Status Download(const void* device, int64_t bytes, void* stream,
                          void* host) = 0;
  // Whether device memory is host memory.
  virtual bool SharesHostMemory() const = 0;

  // Times candidates in turn (A B A B …); tensors[i] is where tensor i is.
  // result[i] has `repeat` samples of candidates[i].
  virtual StatusOr<std::vector<std::vector<Sample>>> Measure(
      const std::vector<const std::vector<BoundStage>*>& candidates,
      const std::vector<void*>& tensors, const Measurement& measurement) = 0;
};

// The backend of "cpu", or of the first GPU or GPU i: "gpu", "gpu:1"; with
// ",tf32=off" float32 is computed without TF32. All of a GPU's memory comes
// from `allocator`, or from the driver if it is null. One for the process and
// each of these. NotFound for other devices; FailedPrecondition where the
// device's libraries are missing.
StatusOr<Backend*> GetBackend(const std::string& device,
                              DeviceAllocator* allocator = nullptr);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_H_
