#include "cc/engine/cpu/tasks/widened.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "cc/engine/cpu/kernels/bfloat16.h"
#include "cc/engine/cpu/kernels/scratch_layout.h"

namespace ios::cpu {
namespace {

class WidenedTask : public CpuTask {
 public:
  WidenedTask(const TaskSpec& spec, std::unique_ptr<Task> task)
      : inputs_(spec.inputs),
        output_(spec.output),
        task_(std::move(task)),
        task_scratch_(scratch_.Take(inner().scratch_floats())),
        wide_output_(scratch_.Take(NumElements(output_.shape))) {
    for (const TensorView& input : inputs_) {
      wide_inputs_.push_back(scratch_.Take(NumElements(input.shape)));
    }
  }

  int64_t scratch_floats() const override { return scratch_.floats(); }

  void Execute(const void* const* inputs, void* output,
               const LaneResources& lane) override {
    float* const scratch = lane.scratch.get();
    std::vector<const float*> wide;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      float* const to = scratch + wide_inputs_[i];
      WidenTensor(static_cast<const BFloat16*>(inputs[i]), inputs_[i], to);
      wide.push_back(to);
    }
    LaneResources inside = lane;
    inside.scratch =
        std::shared_ptr<float>(lane.scratch, scratch + task_scratch_);
    inner().Run(wide.data(), scratch + wide_output_, inside);
    NarrowTensor(scratch + wide_output_, output_,
                 static_cast<BFloat16*>(output));
  }

 private:
  FloatTask& inner() const { return static_cast<FloatTask&>(*task_); }

  const std::vector<TensorView> inputs_;
  const TensorView output_;
  const std::unique_ptr<Task> task_;
  // Areas of the scratch memory: of the float32 task, and of its tensors.
  ScratchLayout scratch_;
  const int64_t task_scratch_, wide_output_;
  std::vector<int64_t> wide_inputs_;
};

}  // namespace

StatusOr<std::unique_ptr<Task>> MakeWidenedTask(const TaskSpec& spec,
                                                const dnnl::engine& engine) {
  TaskSpec wide = spec;
  wide.dtype = DataType::kFloat32;
  for (TensorView& input : wide.inputs) input = DenseView(input.shape);
  wide.output = DenseView(spec.output.shape);
  wide.in_place.assign(spec.inputs.size(), false);
  IOS_ASSIGN_OR_RETURN(std::unique_ptr<Task> task, CompileTask(wide, engine));
  return std::unique_ptr<Task>(
      std::make_unique<WidenedTask>(spec, std::move(task)));
}

}  // namespace ios::cpu
