#include "cc/engine/cpu/tasks/pointwise.h"

#include <array>
#include <cstring>

#include "cc/engine/cpu/onednn/convolution.h"
#include "cc/engine/cpu/tasks/bfloat16_product_task.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

// The task of a 1x1 convolution or a MatMul as a matrix product. All tensors
// may be pitched, except the input of a MatMul. If strides skip pixels, the
// task first copies the pixels that it uses.
class PointwiseTask : public FloatTask {
 public:
  PointwiseTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_(spec.op->type == OperatorType::kMatMul
                   ? DenseView(Flattened(spec.inputs[0].shape))
                   : spec.inputs[0]),
        residual_(spec.inputs.back()),
        output_(spec.output),
        has_residual_(spec.op->residual),
        strides_(spec.op->strides),
        activation_(spec.op->activation),
        plan_(output_.pixels(), input_.channels(), spec.op->filters,
              CurrentThread().lane->size),
        weights_(engine, plan_.channels, *spec.op, AsCpu(spec.parameters[0]),
                 spec.op->bias ? AsCpu(spec.parameters[1]) : nullptr) {}

  int64_t scratch_floats() const override {
    return skips() ? plan_.pixels * plan_.channels : 0;
  }

  void Run(const float* const* inputs, float* output,
           const LaneResources& lane) override {
    GemmArguments arguments = weights_.Arguments();
    arguments.input = inputs[0];
    arguments.input_pitch = input_.pitch;
    if (skips()) {
      CopyPixels(inputs[0], lane.scratch.get());
      arguments.input = lane.scratch.get();
      arguments.input_pitch = plan_.channels;
    }
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
  bool skips() const { return strides_ != std::array<int64_t, 2>{1, 1}; }

  void CopyPixels(const float* x, float* to) const {
    const int64_t height = output_.shape[1], width = output_.shape[2];
    const int64_t floats = plan_.channels;
    ParallelFor(output_.shape[0] * height, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t y = row % height * strides_[0];
        const int64_t first =
            (row / height * input_.shape[1] + y) * input_.shape[2];
        for (int64_t i = 0; i < width; ++i) {
          const int64_t pixel = first + i * strides_[1];
          std::memcpy(to + (row * width + i) * floats, x + pixel * input_.pitch,
                      floats * sizeof(float));
        }
      }
    });
  }

  const TensorView input_, residual_, output_;
  const bool has_residual_;
  const std::array<int64_t, 2> strides_;
  const Activation activation_;
  const GemmPlan plan_;
  const PointwiseWeights weights_;
};

}  // namespace

PointwiseWeights::PointwiseWeights(const dnnl::engine& engine, int64_t channels,
                                   const Operator& of, CpuParameter* filter,
                                   CpuParameter* bias) {
  using dnnl::memory;
  const int64_t filters = of.filters;
  Operator op;
  op.filters = filters;
  memory::desc plain = PlainFilterDesc(op, /*groups=*/1, channels, filters);
  memory::desc panels(plain.get_dims(), memory::data_type::f32,
                      GemmPanel() == 32 ? memory::format_tag::Acdb32a
                                        : memory::format_tag::Acdb16a);
  memory::desc flat = FlatDesc(filters);
  if (of.type == OperatorType::kMatMul) {
    // The weights and the bias get the dimensions that oneDNN's MatMul uses.
    for (memory::desc* const desc : {&plain, &panels}) {
      *desc = desc->reshape({filters, channels}).permute_axes({1, 0});
    }
    flat = flat.reshape({1, filters});
  }
  filter_ = filter->Packed(engine, plain, panels);
  if (bias) bias_ = bias->Packed(engine, flat, flat);
}

GemmArguments PointwiseWeights::Arguments() const {
  GemmArguments arguments;
  arguments.filter = static_cast<const float*>(filter_.get_data_handle());
  if (bias_) {
    arguments.bias = static_cast<const float*>(bias_.get_data_handle());
  }
  return arguments;
}

FloatPointwise::FloatPointwise(const dnnl::engine& engine,
                               const TensorView& input,
                               const TensorView& output, const Operator& of,
                               CpuParameter* filter, CpuParameter* bias)
    : input_(input),
      output_(output),
      activation_(of.activation),
      weights_(engine, input.channels(), of, filter, bias) {}

void FloatPointwise::Run(const Plan& plan,
                         const PointwiseOperands<float>& operands,
                         int64_t begin, int64_t end, float*) const {
  GemmArguments arguments = weights_.Arguments();
  arguments.input = operands.input;
  arguments.input_pitch = input_.pitch;
  arguments.residual = operands.residual;
  arguments.residual_pitch = operands.residual_pitch;
  arguments.activation = activation_;
  arguments.output = static_cast<float*>(operands.output);
  arguments.output_pitch = output_.pitch;
  RunGemm(plan, arguments, begin, end);
}

BFloat16Pointwise::BFloat16Pointwise(const dnnl::engine& engine,
                                     const TensorView& input,
                                     const TensorView& output,
                                     const Operator& of, CpuParameter* filter,
                                     CpuParameter* bias)
    : input_(input), output_(output) {
  op_.filters = of.filters;
  op_.activation = of.activation;
  filter_ = PackedFilter(PlanFor(/*pixels=*/1, /*threads=*/1), filter);
  if (bias) {
    const dnnl::memory::desc flat = FlatDesc(of.filters);
    bias_ = bias->Packed(engine, flat, flat);
  }
}

BFloat16Pointwise::Plan BFloat16Pointwise::PlanFor(int64_t pixels,
                                                   int threads) const {
  TensorView input = input_, output = output_;
  input.shape = {1, 1, pixels, input_.channels()};
  output.shape = {1, 1, pixels, output_.channels()};
  return Plan(op_, input, output, threads);
}

void BFloat16Pointwise::Run(const Plan& plan,
                            const PointwiseOperands<BFloat16>& operands,
                            int64_t begin, int64_t end, float* scratch) const {
  BFloat16Product::Arguments arguments;
  arguments.input = operands.input;
  arguments.filter = filter_.get();
  if (bias_) {
    arguments.bias = static_cast<const float*>(bias_.get_data_handle());
  }
  arguments.residual = operands.residual;
  arguments.residual_pitch = operands.residual_pitch;
  arguments.activation = op_.activation;
  arguments.output = operands.output;
  plan.Run(arguments, begin, end, scratch);
}

std::unique_ptr<Task> MakePointwiseTask(const TaskSpec& spec,
                                        const dnnl::engine& engine) {
  return std::make_unique<PointwiseTask>(spec, engine);
}

}  // namespace ios::cpu
