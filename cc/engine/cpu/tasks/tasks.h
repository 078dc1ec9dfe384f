// Tasks of the CPU backend. Each task is one compiled operator.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_TASKS_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_TASKS_H_

#include <cstdint>
#include <memory>

#include "cc/engine/backend/backend.h"
#include "cc/engine/cpu/onednn/onednn.h"

namespace ios::cpu {

// Memory and other resources of the lane that runs a task. The task may use the
// threads of CurrentThread().lane.
struct LaneResources {
  dnnl::stream stream;
  std::shared_ptr<float> scratch;
  int64_t scratch_floats = 0;  // at least CpuTask::scratch_floats()
};

class CpuTask : public Task {
 public:
  // Computes `output` from `inputs`, which have the data type of the TaskSpec.
  virtual void Execute(const void* const* inputs, void* output,
                       const LaneResources& lane) = 0;
  virtual int64_t scratch_floats() const { return 0; }

  // The number of threads for which the task was compiled. The task must not
  // run on a lane with more threads, where it would write beyond its scratch
  // memory.
  int threads() const { return threads_; }
  void set_threads(int threads) { threads_ = threads; }

 private:
  int threads_ = 1;
};

// A task whose tensors have elements of type T: float or BFloat16.
template <typename T>
class TypedTask : public CpuTask {
 public:
  virtual void Run(const T* const* inputs, T* output,
                   const LaneResources& lane) = 0;

  void Execute(const void* const* inputs, void* output,
               const LaneResources& lane) final {
    Run(reinterpret_cast<const T* const*>(inputs), static_cast<T*>(output),
        lane);
  }
};

using FloatTask = TypedTask<float>;

// Compiles one operator. The current thread must lead a lane with as many
// threads as the task will have. oneDNN's errors become a Status, except for
// lack of memory, which throws std::bad_alloc.
StatusOr<std::unique_ptr<Task>> CompileTask(const TaskSpec& spec,
                                            const dnnl::engine& engine);

// Returns the shape [N, features] of the flattened input of a MatMul.
inline Shape Flattened(const Shape& shape) {
  return {shape[0], NumElements({shape.begin() + 1, shape.end()})};
}

// Returns true if float32 tasks of `op` read a pitched input without a copy.
bool TaskReadsPitched(const Operator& op);

// Returns true if tasks of `op` can absorb a concat and read its inputs
// instead.
bool TaskReadsPieces(const Operator& op);

// The function Absorbs of the CPU's DeviceTraits.
bool TaskAbsorbs(const Operator& producer, const Operator& reader,
                 const Shape& between, const Shape& output);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_TASKS_H_
