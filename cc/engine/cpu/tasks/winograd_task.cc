#include "cc/engine/cpu/tasks/winograd_task.h"

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/elementwise.h"
#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/kernels/winograd.h"
#include "cc/engine/cpu/onednn/convolution.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/onednn/primitive.h"
#include "cc/engine/cpu/tasks/tasks.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

using dnnl::memory;

class WinogradTask : public FloatTask {
 public:
  WinogradTask(const TaskSpec& spec, const dnnl::engine& engine)
      : activation_(spec.op->activation),
        has_residual_(spec.op->residual),
        input_(spec.inputs[0]),
        residual_(spec.inputs.back()),
        output_(spec.output),
        threads_(CurrentThread().lane->size),
        plan_(*spec.op, input_.shape, output_.shape, threads_) {
    const Operator& op = *spec.op;
    CpuParameter* const filter = AsCpu(spec.parameters[0]);
    const memory::desc plain =
        PlainFilterDesc(op, /*groups=*/1, plan_.channels, plan_.filters);
    plain_ = filter->Packed(engine, plain, plain);
    common_cells_ =
        CommonCells(plan_, static_cast<const float*>(plain_.get_data_handle()));
    filter_ = filter->Derived(
        static_cast<int>(op.algorithm), plan_.filter_floats(), [&](float* to) {
          TransformFilter(
              plan_, static_cast<const float*>(plain_.get_data_handle()), to);
        });
    if (op.bias) {
      const memory::desc desc = FlatDesc(op.filters);
      bias_ = AsCpu(spec.parameters[1])->Packed(engine, desc, desc);
    }
    at_once_ = IsInRegisters(activation_);
  }

  int64_t scratch_floats() const override {
    return threads_ * plan_.scratch_floats();
  }

  void Run(const float* const* inputs, float* output,
           const LaneResources& lane) override {
    WinogradArguments arguments;
    arguments.input = inputs[0];
    arguments.input_pitch = input_.pitch;
    arguments.filter = filter_.get();
    arguments.plain = static_cast<const float*>(plain_.get_data_handle());
    arguments.common_cells = common_cells_;
    if (bias_) {
      arguments.bias = static_cast<const float*>(bias_.get_data_handle());
    }
    if (has_residual_) {
      arguments.residual = inputs[1];
      arguments.residual_pitch = residual_.pitch;
    }
    if (at_once_) arguments.activation = activation_.kind;
    arguments.output = output;
    arguments.output_pitch = output_.pitch;
    ParallelFor(plan_.units(), 1, [&](int64_t begin, int64_t end) {
      RunWinograd(plan_, arguments, begin, end,
                  lane.scratch.get() + ThreadIndex() * plan_.scratch_floats());
    });
    if (!at_once_) Activate({output, output_}, activation_, {output, output_});
  }

 private:
  const Activation activation_;
  const bool has_residual_;
  const TensorView input_, residual_, output_;
  const int threads_;
  const WinogradPlan plan_;
  bool at_once_;  // RunWinograd applies the activation
  memory plain_, bias_;
  std::shared_ptr<const float> filter_;
  uint32_t common_cells_;
};

}  // namespace

std::unique_ptr<Task> MakeWinogradTask(const TaskSpec& spec,
                                       const dnnl::engine& engine) {
  return std::make_unique<WinogradTask>(spec, engine);
}

}  // namespace ios::cpu
