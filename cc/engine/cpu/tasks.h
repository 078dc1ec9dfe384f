// Tasks of the CPU backend: one compiled operator each.
#ifndef IOS_TF_CC_ENGINE_CPU_TASKS_H_
#define IOS_TF_CC_ENGINE_CPU_TASKS_H_

#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cc/engine/backend.h"
#include "cc/engine/cpu/memory.h"

namespace ios::cpu {

// What a task runs on: the lane is the calling thread's.
struct ExecutionContext {
  dnnl_stream_t stream = nullptr;
  float* scratch = nullptr;  // of at least scratch_floats()
};

class CpuTask : public Task {
 public:
  virtual void Run(const float* const* inputs, float* output,
                   const ExecutionContext& context) = 0;
  virtual int64_t scratch_floats() const { return 0; }
};

// A weight in the layouts that primitives chose. The plain array goes once the
// first layout exists; further ones are made from that.
class CpuParameter : public Parameter {
 public:
  // Packed layouts come from `pool`.
  CpuParameter(const ConstArray& array, FloatPool* pool);

  // The weight as `wanted`. `plain` describes the array as it was given.
  dnnl::memory Packed(const dnnl::engine& engine,
                      const dnnl::memory::desc& plain,
                      const dnnl::memory::desc& wanted);
  const float* plain() const { return plain_.data(); }

 private:
  struct Layout {
    dnnl::memory memory;
    std::shared_ptr<float> data;
  };

  FloatPool* const pool_;
  std::mutex mutex_;
  std::vector<float> plain_;
  std::vector<Layout> packed_;
};

// Call with the current thread leading a lane of as many threads as the task
// will have. oneDNN's exceptions become Statuses.
StatusOr<std::unique_ptr<Task>> CompileTask(const TaskSpec& spec,
                                            const dnnl::engine& engine);

// Whether tasks of `op` read a pitched input without a copy.
bool TaskReadsPitched(const Operator& op);

}  // namespace ios::cpu

#endif  // IOS_TF_CC_ENGINE_CPU_TASKS_H_
