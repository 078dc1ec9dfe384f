#include "cc/engine/cuda/function_task.h"

#include <utility>

namespace ios::cuda {
namespace {

class FunctionTask : public CudaTask {
 public:
  FunctionTask(TaskFunction function, int64_t scratch_bytes)
      : function_(std::move(function)), scratch_bytes_(scratch_bytes) {}

  Status Enqueue(const void* const* inputs, void* output,
                 const LaneResources& lane) const override {
    return function_(inputs, output, lane);
  }
  int64_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  const TaskFunction function_;
  const int64_t scratch_bytes_;
};

}  // namespace

TaskOr MakeTask(TaskFunction function, int64_t scratch_bytes) {
  return std::unique_ptr<Task>(
      new FunctionTask(std::move(function), scratch_bytes));
}

StatusOr<std::shared_ptr<const void>> Pack(const TaskSpec& spec, size_t index,
                                           CudaParameter::Layout layout) {
  if (index >= spec.parameters.size()) return std::shared_ptr<const void>();
  return static_cast<CudaParameter*>(spec.parameters[index].get())
      ->Packed(layout, spec.dtype);
}

}  // namespace ios::cuda
