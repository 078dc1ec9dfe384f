// Tasks of the CPU backend: one compiled operator each.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_H_

#include <cstdint>
#include <dnnl.hpp>
#include <memory>

#include "cc/engine/backend.h"

namespace ios::cpu {

// Resources of the lane that a task runs on, beside its threads, which are the
// calling thread's.
struct LaneResources {
  dnnl::stream stream;
  std::shared_ptr<float> scratch;
  int64_t scratch_floats = 0;  // no fewer than the task's
};

class CpuTask : public Task {
 public:
  virtual void Run(const float* const* inputs, float* output,
                   const LaneResources& lane) = 0;
  virtual int64_t scratch_floats() const { return 0; }

  // Threads it was compiled for: on a lane of more, it would write beyond its
  // scratch memory.
  int threads() const { return threads_; }
  void set_threads(int threads) { threads_ = threads; }

 private:
  int threads_ = 1;
};

// Call with the current thread leading a lane of as many threads as the task
// will have. oneDNN's exceptions become Statuses.
StatusOr<std::unique_ptr<Task>> CompileTask(const TaskSpec& spec,
                                            const dnnl::engine& engine);

// What a MatMul multiplies of a batch of maps: [N,C], flattened pixel by pixel.
inline Shape Flattened(const Shape& shape) {
  return {shape[0], NumElements({shape.begin() + 1, shape.end()})};
}

// Whether tasks of `op` read a pitched input without a copy.
bool TaskReadsPitched(const Operator& op);

// Whether tasks of `op` read the pieces of a concat, the terms of a sum.
bool TaskReadsPieces(const Operator& op);
bool TaskReadsTerms(const Operator& op);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_H_
