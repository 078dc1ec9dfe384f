// Backend: the interface between the engine and a device. Nothing above it knows
// the device.
#ifndef IOS_TF_CC_ENGINE_BACKEND_H_
#define IOS_TF_CC_ENGINE_BACKEND_H_

#include <memory>
#include <string>
#include <vector>

#include "cc/core/block.h"
#include "cc/core/status.h"
#include "cc/engine/program.h"

namespace ios {

// A tensor as a kernel sees it: pixels (all dimensions but the last) of
// shape.back() floats each, `pitch` floats from one pixel to the next. A pitch
// above shape.back() is a range of channels of a wider tensor.
struct TensorView {
  Shape shape;
  int64_t pitch = 0;

  int64_t channels() const { return shape.back(); }
  int64_t pixels() const { return NumElements(shape) / shape.back(); }
  bool dense() const { return pitch == shape.back(); }
};

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

// A task and the tensors it touches, as indices into the table given to Run.
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

struct TaskSpec {
  const Operator* op = nullptr;
  std::vector<TensorView> inputs;
  TensorView output;
  std::vector<std::shared_ptr<Parameter>> parameters;  // of WeightShapes()
  // Concat only: inputs that already lie in their slice of the output.
  std::vector<bool> in_place;
  int lanes = 1;  // that share the device while the task runs
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string Fingerprint() const = 0;

  // Whether tasks of `op` read a pitched view of their input as fast as a dense
  // one. Every task can read and write any view.
  virtual bool ReadsPitched(const Operator& op) const = 0;

  // How many lanes a stage of `groups` groups runs on.
  virtual int LanesFor(int groups) const = 0;

  virtual StatusOr<std::shared_ptr<Parameter>> MakeParameter(
      const ConstArray& array) = 0;
  virtual StatusOr<std::unique_ptr<Task>> Compile(const TaskSpec& spec) = 0;

  // Device memory, aligned for any task. Null if there is not enough.
  virtual std::shared_ptr<float> Allocate(int64_t floats) = 0;

  // Runs the stages in order; tensors[i] is where tensor i is. Exclusive: callers
  // queue.
  virtual Status Run(const std::vector<BoundStage>& stages,
                     const std::vector<float*>& tensors) = 0;

  // Times candidates in turn (A B A B …). result[i] has `repeat` latencies of
  // candidates[i] in milliseconds.
  virtual StatusOr<std::vector<std::vector<double>>> Measure(
      const std::vector<const std::vector<BoundStage>*>& candidates,
      const std::vector<float*>& tensors, const Measurement& measurement) = 0;
};

// The backend of "cpu", one for the process; NotFound for other devices.
StatusOr<Backend*> GetBackend(const std::string& device);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_BACKEND_H_
