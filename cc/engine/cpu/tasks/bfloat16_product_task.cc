#include "cc/engine/cpu/tasks/bfloat16_product_task.h"

#include "cc/engine/cpu/kernels/elementwise.h"
#include "cc/engine/cpu/onednn/primitive.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

class BFloat16ProductTask : public CpuTask {
 public:
  BFloat16ProductTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_(spec.inputs[0]),
        copies_input_(spec.op->type == OperatorType::kMatMul &&
                      !input_.dense()),
        residual_pitch_(spec.inputs.back().pitch),
        has_residual_(spec.op->residual),
        activation_(spec.op->activation),
        threads_(CurrentThread().lane->size),
        product_(*spec.op, input_, spec.output, threads_),
        filter_(PackedFilter(product_, AsCpu(spec.parameters[0]))) {
    if (spec.op->bias) {
      const dnnl::memory::desc flat = FlatDesc(spec.op->filters);
      bias_ = AsCpu(spec.parameters[1])->Packed(engine, flat, flat);
    }
  }

  int64_t scratch_floats() const override {
    const int64_t copied = copies_input_ ? NumElements(input_.shape) : 0;
    return copied + threads_ * product_.scratch_floats();
  }

  void Execute(const void* const* inputs, void* output,
               const LaneResources& lane) override {
    float* scratch = lane.scratch.get();
    BFloat16Product::Arguments arguments;
    arguments.input = static_cast<const BFloat16*>(inputs[0]);
    if (copies_input_) {
      auto* const copy = reinterpret_cast<BFloat16*>(scratch);
      Copy<BFloat16>({arguments.input, input_},
                     {copy, DenseView(input_.shape)});
      arguments.input = copy;
      scratch += NumElements(input_.shape);
    }
    arguments.filter = filter_.get();
    if (bias_) {
      arguments.bias = static_cast<const float*>(bias_.get_data_handle());
    }
    if (has_residual_) {
      arguments.residual = static_cast<const BFloat16*>(inputs[1]);
      arguments.residual_pitch = residual_pitch_;
    }
    arguments.activation = activation_;
    arguments.output = output;
    ParallelFor(product_.units(), 1, [&](int64_t begin, int64_t end) {
      product_.Run(arguments, begin, end,
                   scratch + ThreadIndex() * product_.scratch_floats());
    });
  }

 private:
  const TensorView input_;
  const bool copies_input_;  // to make it dense
  const int64_t residual_pitch_;
  const bool has_residual_;
  const Activation activation_;
  const int threads_;
  const BFloat16Product product_;
  const std::shared_ptr<const BFloat16> filter_;
  dnnl::memory bias_;
};

}  // namespace

std::shared_ptr<const BFloat16> PackedFilter(const BFloat16Product& product,
                                             CpuParameter* filter) {
  std::shared_ptr<const float> packed = filter->Replaced(
      product.layout(), (product.packed_size() + 1) / 2,
      [&](const float* plain, float* to) {
        product.Pack(plain, reinterpret_cast<BFloat16*>(to));
      },
      [product](const float* from, float* plain) {
        product.Unpack(reinterpret_cast<const BFloat16*>(from), plain);
      });
  const auto* const data = reinterpret_cast<const BFloat16*>(packed.get());
  return {std::move(packed), data};
}

std::unique_ptr<Task> MakeBFloat16ProductTask(const TaskSpec& spec,
                                              const dnnl::engine& engine) {
  return std::make_unique<BFloat16ProductTask>(spec, engine);
}

}  // namespace ios::cpu
