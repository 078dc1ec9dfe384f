#include "cc/engine/cpu/kernels/pointwise.h"

#include "cc/engine/cpu/onednn/convolution.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

// Of pitched tensors.
class PointwiseTask : public CpuTask {
 public:
  PointwiseTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_(spec.inputs[0]),
        residual_(spec.inputs.back()),
        output_(spec.output),
        has_residual_(spec.op->residual),
        activation_(spec.op->activation),
        plan_(output_.pixels(), input_.channels(), spec.op->filters,
              CurrentThread().lane->size),
        weights_(engine, plan_.channels, plan_.filters,
                 AsCpu(spec.parameters[0]),
                 spec.op->bias ? AsCpu(spec.parameters[1]) : nullptr) {}

  void Run(const float* const* inputs, float* output,
           const LaneResources&) override {
    GemmArguments arguments = weights_.Arguments();
    arguments.input = inputs[0];
    arguments.input_pitch = input_.pitch;
    if (has_residual_) {
      arguments.residual = inputs[1];
      arguments.residual_pitch = residual_.pitch;
    }
    arguments.activation = activation_;
    arguments.output = output;
    arguments.output_pitch = output_.pitch;
    ParallelFor(plan_.units(), 1, [&](int64_t begin, int64_t end) {
      RunGemm(plan_, arguments, begin, end);
    });
  }

 private:
  const TensorView input_, residual_, output_;
  const bool has_residual_;
  const Activation activation_;
  const GemmPlan plan_;
  const PointwiseWeights weights_;
};

}  // namespace

PointwiseWeights::PointwiseWeights(const dnnl::engine& engine, int64_t channels,
                                   int64_t filters, CpuParameter* filter,
                                   CpuParameter* bias) {
  using dnnl::memory;
  Operator op;
  op.filters = filters;
  const memory::desc plain =
      PlainFilterDesc(op, /*groups=*/1, channels, filters);
  filter_ = filter->Packed(
      engine, plain,
      memory::desc(plain.get_dims(), memory::data_type::f32,
                   GemmPanel() == 32 ? memory::format_tag::Acdb32a
                                     : memory::format_tag::Acdb16a));
  if (bias) {
    const memory::desc desc = FlatDesc(filters);
    bias_ = bias->Packed(engine, desc, desc);
  }
}

GemmArguments PointwiseWeights::Arguments() const {
  GemmArguments arguments;
  arguments.filter = static_cast<const float*>(filter_.get_data_handle());
  if (bias_) {
    arguments.bias = static_cast<const float*>(bias_.get_data_handle());
  }
  return arguments;
}

std::unique_ptr<Task> MakePointwiseTask(const TaskSpec& spec,
                                        const dnnl::engine& engine) {
  return std::make_unique<PointwiseTask>(spec, engine);
}

}  // namespace ios::cpu
