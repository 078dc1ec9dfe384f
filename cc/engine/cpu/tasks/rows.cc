#include "cc/engine/cpu/tasks/rows.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/kernels/depthwise.h"
#include "cc/engine/cpu/kernels/registers.h"
#include "cc/engine/cpu/onednn/convolution.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/tasks/pointwise.h"
#include "cc/engine/cpu/tasks/scratch.h"
#include "cc/engine/cpu/tasks/tasks.h"
#include "cc/engine/cpu/threads/lanes.h"

namespace ios::cpu {
namespace {

// Returns the shape of the image over which the windows move.
Shape ImageShape(const TaskSpec& spec) {
  Shape image = spec.inputs[0].shape;
  image.back() = spec.op->groups;
  return image;
}

template <typename T>
class RowsTask : public TypedTask<T> {
  using Image = typename Depthwise<T>::Image;
  using Arguments = typename Depthwise<T>::Arguments;

 public:
  RowsTask(const TaskSpec& spec, const dnnl::engine& engine)
      : op_(*spec.op),
        input_(spec.inputs[0]),
        output_(spec.output),
        depthwise_(op_, ImageShape(spec), output_.shape),
        threads_(CurrentThread().lane->size) {
    const dnnl::memory::desc plain =
        PlainFilterDesc(op_, op_.groups, op_.groups, op_.groups);
    filter_ = AsCpu(spec.parameters[0])->Packed(engine, plain, plain);
    if (op_.bias) {
      const dnnl::memory::desc flat = FlatDesc(op_.groups);
      bias_ = AsCpu(spec.parameters[1])->Packed(engine, flat, flat);
    }
    const auto& [tensors, absorbed, weights] = spec.operands[0];
    if (absorbed) {
      Operator product = *absorbed;
      if (!IsInRegisters(product.activation)) {
        std::swap(product.activation, row_activation_);
      }
      product_.emplace(engine, input_, DenseView(ImageShape(spec)), product,
                       AsCpu(weights[0]),
                       product.bias ? AsCpu(weights[1]) : nullptr);
      row_plan_.emplace(product_->PlanFor(input_.shape[2], /*threads=*/1));
      product_floats_ = product_->scratch_floats(*row_plan_);
    }
    scratch_floats_ =
        product_floats_ +
        WholeLines(depthwise_.scratch_floats(ImageOf(nullptr, nullptr))) +
        kApart;
    // There are no more strips than necessary, because two neighbouring strips
    // both read (or compute) the rows at their border.
    const int64_t images = output_.shape[0];
    strips_ = std::min(CeilDiv(threads_, images), output_.shape[1]);
  }

  int64_t scratch_floats() const override { return threads_ * scratch_floats_; }

  void Run(const T* const* inputs, T* output,
           const LaneResources& lane) override {
    Arguments arguments;
    arguments.filter = static_cast<const float*>(filter_.get_data_handle());
    if (bias_) {
      arguments.bias = static_cast<const float*>(bias_.get_data_handle());
    }
    arguments.activation = op_.activation;
    arguments.output_pitch = output_.pitch;
    const int64_t units = output_.shape[0] * strips_, rows = depthwise_.rows();
    ParallelFor(units, 1, [&](int64_t first, int64_t last) {
      float* const scratch =
          lane.scratch.get() + ThreadIndex() * scratch_floats_;
      const Image image = ImageOf(inputs[0], scratch);
      for (int64_t unit = first; unit < last; ++unit) {
        const int64_t begin = unit * rows / units;
        Arguments strip = arguments;
        strip.output = output + begin * depthwise_.out_width() * output_.pitch;
        depthwise_.Run(image, strip, {begin, (unit + 1) * rows / units},
                       scratch + product_floats_);
      }
    });
  }

 private:
  // `scratch` is the scratch memory of the product.
  Image ImageOf(const T* x, float* scratch) const {
    Image image;
    if (product_) {
      image.make = [this, x, scratch](int64_t number, int64_t row, float* to) {
        const int64_t pixel =
            (number * input_.shape[1] + row) * input_.shape[2];
        PointwiseOperands<T> operands;
        operands.input = x + pixel * input_.pitch;
        operands.output = to;
        product_->Run(*row_plan_, operands, 0, row_plan_->units(), scratch);
        if (row_activation_ != Activation::kNone) {
          ActivateRow(to, input_.shape[2] * op_.groups, row_activation_, to);
        }
      };
    } else {
      image.terms = {{x, input_.pitch}};
    }
    return image;
  }

  const Operator op_;
  const TensorView input_, output_;
  const Depthwise<T> depthwise_;
  const int64_t threads_;
  dnnl::memory filter_, bias_;  // in TensorFlow's layout
  // The absorbed 1x1 convolution, if there is one, and its plan for a row of
  // the image. Its activation is applied to whole rows if it is not computed in
  // registers.
  std::optional<Pointwise<T>> product_;
  std::optional<typename Pointwise<T>::Plan> row_plan_;
  Activation row_activation_;
  int64_t strips_ = 1;  // per image
  // The scratch memory of a thread, and the part of it for the product.
  int64_t scratch_floats_ = 0, product_floats_ = 0;
};

}  // namespace

bool CanStreamRows(const Operator& op, const Shape& image,
                   const Shape& output) {
  return MayCompute(op, Algorithm::kRows) && image.back() == op.groups &&
         Depthwise<float>::Takes(op, image, output);
}

bool UsesRowStreaming(const Operator& op, const Shape& image,
                      const Shape& output) {
  return op.algorithm == Algorithm::kRows && CanStreamRows(op, image, output);
}

std::unique_ptr<Task> MakeRowsTask(const TaskSpec& spec,
                                   const dnnl::engine& engine) {
  if (spec.dtype == DataType::kBFloat16) {
    return std::make_unique<RowsTask<BFloat16>>(spec, engine);
  }
  return std::make_unique<RowsTask<float>>(spec, engine);
}

}  // namespace ios::cpu
