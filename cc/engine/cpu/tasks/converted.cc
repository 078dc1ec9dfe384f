#include "cc/engine/cpu/tasks/converted.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/engine/cpu/kernels/convert_tensor.h"
#include "cc/engine/cpu/kernels/scratch_layout.h"

namespace ios::cpu {
namespace {

// A tensor of the outer task, and its dense copy for the inner task in scratch
// memory, if the two types differ.
class ConvertedTensor {
 public:
  ConvertedTensor(const TensorView& view, DataType inside,
                  ScratchLayout* scratch)
      : view_(view), inside_(inside), converts_(view.dtype != inside) {
    if (!converts_) return;
    const int64_t bytes = NumElements(view.shape) * SizeOf(inside);
    offset_ = scratch->Take((bytes + 3) / 4);
  }

  // The tensor as the inner task sees it.
  TensorView inside() const {
    return converts_ ? DenseView(view_.shape, inside_) : view_;
  }

  bool converts() const { return converts_; }
  void* Copy(float* scratch) const { return scratch + offset_; }

  void CopyIn(const void* data, float* scratch) const {
    if (converts_) ConvertTensor(data, view_, scratch + offset_, inside());
  }
  void CopyOut(const float* scratch, void* data) const {
    if (converts_) ConvertTensor(scratch + offset_, inside(), data, view_);
  }

 private:
  TensorView view_;
  DataType inside_;
  bool converts_;
  int64_t offset_ = 0;
};

class ConvertedTask : public CpuTask {
 public:
  ConvertedTask(const TaskSpec& spec, DataType inside, DataType output)
      : output_(spec.output, output, &scratch_) {
    for (const TensorView& input : spec.inputs) {
      inputs_.emplace_back(input, inside, &scratch_);
    }
  }

  // Compiles the inner task.
  Status Compile(TaskSpec spec, DataType inside, const dnnl::engine& engine) {
    spec.dtype = inside;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      spec.inputs[i] = inputs_[i].inside();
      if (inputs_[i].converts() || output_.converts()) spec.in_place[i] = false;
    }
    spec.output = output_.inside();
    IOS_ASSIGN_OR_RETURN(task_, CompileTask(spec, engine));
    task_scratch_ = scratch_.Take(inner().scratch_floats());
    return Status();
  }

  int64_t scratch_floats() const override { return scratch_.floats(); }

  void Execute(const void* const* inputs, void* output,
               const LaneResources& lane) override {
    float* const scratch = lane.scratch.get();
    std::vector<const void*> inside;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i].CopyIn(inputs[i], scratch);
      inside.push_back(inputs_[i].converts() ? inputs_[i].Copy(scratch)
                                             : inputs[i]);
    }
    LaneResources resources = lane;
    resources.scratch =
        std::shared_ptr<float>(lane.scratch, scratch + task_scratch_);
    void* const computed = output_.converts() ? output_.Copy(scratch) : output;
    inner().Execute(inside.data(), computed, resources);
    output_.CopyOut(scratch, output);
  }

 private:
  CpuTask& inner() const { return static_cast<CpuTask&>(*task_); }

  ScratchLayout scratch_;
  std::vector<ConvertedTensor> inputs_;
  ConvertedTensor output_;
  std::unique_ptr<Task> task_;
  int64_t task_scratch_ = 0;
};

}  // namespace

bool HasTypes(const TaskSpec& spec, DataType inputs, DataType output) {
  return spec.output.dtype == output &&
         std::all_of(
             spec.inputs.begin(), spec.inputs.end(),
             [&](const TensorView& input) { return input.dtype == inputs; });
}

StatusOr<std::unique_ptr<Task>> MakeConvertedTask(const TaskSpec& spec,
                                                  DataType inside,
                                                  DataType output,
                                                  const dnnl::engine& engine) {
  auto task = std::make_unique<ConvertedTask>(spec, inside, output);
  IOS_RETURN_IF_ERROR(task->Compile(spec, inside, engine));
  return std::unique_ptr<Task>(std::move(task));
}

}  // namespace ios::cpu
