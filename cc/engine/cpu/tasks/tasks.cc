#include "cc/engine/cpu/tasks/tasks.h"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <string>

#include "cc/engine/cpu/kernels/activations.h"
#include "cc/engine/cpu/onednn/convolution.h"
#include "cc/engine/cpu/onednn/parameter.h"
#include "cc/engine/cpu/onednn/primitive.h"
#include "cc/engine/cpu/tasks/bfloat16_tasks.h"
#include "cc/engine/cpu/tasks/converted.h"
#include "cc/engine/cpu/tasks/kernel_task.h"
#include "cc/engine/cpu/tasks/pointwise.h"
#include "cc/engine/cpu/tasks/rows.h"
#include "cc/engine/cpu/tasks/scratch.h"
#include "cc/engine/cpu/tasks/separable.h"
#include "cc/engine/cpu/tasks/winograd_task.h"

namespace ios::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto kF32 = memory::data_type::f32;

class ConvTask : public FloatTask {
 public:
  ConvTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_(spec.inputs[0], &scratch_),
        residual_(spec.inputs.back(), &scratch_),
        output_(spec.output, &scratch_),
        has_residual_(spec.op->residual) {
    const Operator& op = *spec.op;
    convolution_.Create(engine, op, spec.inputs[0].shape, spec.output.shape,
                        {AsCpu(spec.parameters[0]),
                         op.bias ? AsCpu(spec.parameters[1]) : nullptr});
    scratchpad_ = scratch_.Take(convolution_.scratchpad_floats());
  }

  int64_t scratch_floats() const override { return scratch_.floats(); }

  void Run(const float* const* inputs, float* output,
           const LaneResources& lane) override {
    float* scratch = lane.scratch.get();
    const float* residual =
        has_residual_ ? residual_.Get(inputs[1], scratch) : nullptr;
    convolution_.Run(input_.Get(inputs[0], scratch), residual,
                     output_.Begin(output, scratch), lane.stream.get(),
                     scratch + scratchpad_);
    output_.Finish(output, scratch, convolution_.rest());
  }

 private:
  ScratchLayout scratch_;
  DenseInput input_, residual_;
  DenseOutput output_;
  const bool has_residual_;
  Convolution convolution_;
  int64_t scratchpad_ = 0;
};

// Corrects the output of oneDNN's max pool for Operator::pads_zeros: oneDNN
// ignores the padding, but its cells should count as zeros.
class ZeroPadding {
 public:
  ZeroPadding() = default;
  ZeroPadding(const Operator& op, const Shape& in, const Shape& out)
      : shape_(out) {
    const std::array<int64_t, 4> pad = ExplicitPadding(op, in);
    for (int k : {0, 1}) {
      const int64_t stride = op.strides[k];
      begin_[k] = (pad[2 * k] + stride - 1) / stride;
      const int64_t last = in[1 + k] + pad[2 * k] - op.kernel[k];
      end_[k] = last < 0 ? 0 : last / stride + 1;
    }
  }

  // Corrects a dense output.
  void Apply(float* output) const {
    if (shape_.empty()) return;
    for (int64_t row = 0; row < shape_[0] * shape_[1]; ++row) {
      const bool inside = Inside(0, row % shape_[1]);
      for (int64_t column = 0; column < shape_[2]; ++column) {
        float* cell = output + (row * shape_[2] + column) * shape_[3];
        if (inside && Inside(1, column)) continue;
        for (int64_t c = 0; c < shape_[3]; ++c) {
          cell[c] = std::max(cell[c], 0.0f);
        }
      }
    }
  }

 private:
  // Returns true if the window at output position `position` lies completely
  // inside the image, along height (axis 0) or width (axis 1).
  bool Inside(int axis, int64_t position) const {
    return position >= begin_[axis] && position < end_[axis];
  }

  Shape shape_;  // of the output; empty if nothing needs a correction
  std::array<int64_t, 2> begin_ = {}, end_ = {};
};

// Pooling or MatMul: a oneDNN primitive from one dense tensor to another.
class PrimitiveTask : public FloatTask {
 public:
  PrimitiveTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_(spec.inputs[0], &scratch_), output_(spec.output, &scratch_) {
    const Operator& op = *spec.op;
    const Shape& in = spec.inputs[0].shape;
    const Shape& out = spec.output.shape;
    switch (op.type) {
      case OperatorType::kPool: {
        const std::array<int64_t, 4> pad = ExplicitPadding(op, in);
        dnnl::post_ops ops;
        if (op.pads_zeros) {
          zero_padding_ = ZeroPadding(op, in, out);
          rest_ = op.activation;
        } else {
          rest_ = AppendActivation(op.activation, &ops);
        }
        Create(dnnl::pooling_forward::primitive_desc(
                   engine, dnnl::prop_kind::forward_inference,
                   op.pool == PoolKind::kMax
                       ? algorithm::pooling_max
                       : algorithm::pooling_avg_exclude_padding,
                   NhwcDesc(in), NhwcDesc(out), {op.strides[0], op.strides[1]},
                   {op.kernel[0], op.kernel[1]}, {0, 0}, {pad[0], pad[2]},
                   {pad[1], pad[3]}, AttributesWith(ops)),
               engine);
        break;
      }
      case OperatorType::kMatMul: {
        dnnl::post_ops ops;
        rest_ = AppendActivation(op.activation, &ops);
        const int64_t features = Flattened(in)[1];
        const memory::desc plain({features, out[1]}, kF32, Tag::ab);
        const memory::desc bias({1, out[1]}, kF32, Tag::ab);
        const dnnl::matmul::primitive_desc desc(
            engine, memory::desc({in[0], features}, kF32, Tag::ab),
            memory::desc({features, out[1]}, kF32, Tag::any),
            op.bias ? bias : memory::desc(),
            memory::desc({in[0], out[1]}, kF32, Tag::ab), AttributesWith(ops));
        Create(desc, engine);
        primitive_.AddArgument(
            DNNL_ARG_WEIGHTS, AsCpu(spec.parameters[0])
                                  ->Packed(engine, plain, desc.weights_desc()));
        if (op.bias) {
          primitive_.AddArgument(
              DNNL_ARG_BIAS,
              AsCpu(spec.parameters[1])->Packed(engine, bias, bias));
        }
        break;
      }
      default:
        break;
    }
    scratchpad_ = scratch_.Take(primitive_.scratchpad_floats());
  }

  int64_t scratch_floats() const override { return scratch_.floats(); }

  void Run(const float* const* inputs, float* output,
           const LaneResources& lane) override {
    float* scratch = lane.scratch.get();
    primitive_.Set(source_, input_.Get(inputs[0], scratch));
    float* dense = output_.Begin(output, scratch);
    primitive_.Set(target_, dense);
    primitive_.Execute(lane.stream.get(), scratch + scratchpad_);
    zero_padding_.Apply(dense);
    output_.Finish(output, scratch, rest_);
  }

 private:
  template <typename PrimitiveDesc>
  void Create(const PrimitiveDesc& desc, const dnnl::engine& engine) {
    primitive_.Create(desc, engine);
    source_ = primitive_.AddArgument(DNNL_ARG_SRC, desc.src_desc());
    target_ = primitive_.AddArgument(DNNL_ARG_DST, desc.dst_desc());
  }

  ScratchLayout scratch_;
  DenseInput input_;
  DenseOutput output_;
  Primitive primitive_;
  ZeroPadding zero_padding_;
  Activation rest_;
  int source_ = -1, target_ = -1;
  int64_t scratchpad_ = 0;
};

// A convolution of images without cells. Its windows contain only zeros of the
// padding, so only bias, residual and activation are computed.
class EmptyInputConvolution : public FloatTask {
 public:
  EmptyInputConvolution(const TaskSpec& spec, const dnnl::engine& engine)
      : op_(*spec.op), output_(spec.output) {
    const memory::desc desc = FlatDesc(op_.filters);
    if (op_.bias) {
      bias_ = AsCpu(spec.parameters.back())->Packed(engine, desc, desc);
    }
    if (op_.residual) {
      residual_ = spec.inputs.size() - 1;
      residual_pitch_ = spec.inputs.back().pitch;
    }
  }

  void Run(const float* const* inputs, float* output,
           const LaneResources&) override {
    const int64_t channels = output_.channels();
    const float* bias =
        op_.bias ? static_cast<const float*>(bias_.get_data_handle()) : nullptr;
    for (int64_t p = 0; p < output_.pixels(); ++p) {
      float* out = output + p * output_.pitch;
      for (int64_t c = 0; c < channels; ++c) {
        out[c] = bias ? bias[c] : 0.0f;
        if (op_.residual) out[c] += inputs[residual_][p * residual_pitch_ + c];
      }
      if (op_.activation != Activation::kNone) {
        ActivateRow(out, channels, op_.activation, out);
      }
    }
  }

 private:
  const Operator op_;
  const TensorView output_;
  memory bias_;
  size_t residual_ = 0;
  int64_t residual_pitch_ = 0;
};

// A max pool of images without cells, whose windows contain only padding.
class MaximumOfNothing : public FloatTask {
 public:
  explicit MaximumOfNothing(const TaskSpec& spec)
      : output_(spec.output),
        value_(spec.op->pads_zeros ? 0.0f
                                   : std::numeric_limits<float>::lowest()) {}

  void Run(const float* const*, float* output, const LaneResources&) override {
    for (int64_t p = 0; p < output_.pixels(); ++p) {
      std::fill_n(output + p * output_.pitch, output_.channels(), value_);
    }
  }

 private:
  const TensorView output_;
  const float value_;
};

}  // namespace

StatusOr<std::unique_ptr<Task>> CompileTask(const TaskSpec& spec,
                                            const dnnl::engine& engine) {
  if (spec.dtype == DataType::kBFloat16) {
    return CompileBFloat16Task(spec, engine);
  }
  if (!HasTypes(spec, DataType::kFloat32, DataType::kFloat32)) {
    return MakeConvertedTask(spec, DataType::kFloat32, DataType::kFloat32,
                             engine);
  }
  try {
    std::unique_ptr<Task> task;
    if (spec.reads_nothing() && IsConvolution(spec.op->type)) {
      task = std::make_unique<EmptyInputConvolution>(spec, engine);
      return task;
    }
    if (spec.reads_nothing() && spec.op->type == OperatorType::kPool) {
      task = std::make_unique<MaximumOfNothing>(spec);
      return task;
    }
    switch (spec.op->type) {
      case OperatorType::kConv2D:
        if (spec.operands[0].absorbed ||
            UsesRowStreaming(*spec.op, spec.inputs[0].shape,
                             spec.output.shape)) {
          task = MakeRowsTask(spec, engine);
        } else if (spec.op->algorithm == Algorithm::kDirect ||
                   spec.op->algorithm == Algorithm::kRows) {
          task = std::make_unique<ConvTask>(spec, engine);
        } else if (spec.op->algorithm == Algorithm::kGemm) {
          task = MakePointwiseTask(spec, engine);
        } else {
          task = MakeWinogradTask(spec, engine);
        }
        break;
      case OperatorType::kConv2DTranspose:
        task = std::make_unique<ConvTask>(spec, engine);
        break;
      case OperatorType::kSepConv:
        task = MakeSepConvTask(spec, engine);
        break;
      case OperatorType::kMatMul:
        if (spec.op->algorithm == Algorithm::kGemm && spec.inputs[0].dense() &&
            !spec.reads_nothing()) {
          task = MakePointwiseTask(spec, engine);
          break;
        }
        [[fallthrough]];
      case OperatorType::kPool:
        task = std::make_unique<PrimitiveTask>(spec, engine);
        break;
      default:
        task = MakeKernelTask(spec);
    }
    return task;
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    return Internal(std::string("oneDNN cannot run ") +
                    ToString(spec.op->type) + " '" + spec.op->name +
                    "': " + e.what());
  }
}

bool TaskReadsPieces(const Operator& op) {
  return op.type == OperatorType::kAdd || op.type == OperatorType::kActivation;
}

bool TaskAbsorbs(const Operator& producer, const Operator& reader,
                 const Shape& between, const Shape& output) {
  switch (producer.type) {
    case OperatorType::kConcat:
      return TaskReadsPieces(reader);
    case OperatorType::kAdd:
      return reader.type == OperatorType::kSepConv;
    case OperatorType::kConv2D:
      return producer.algorithm != Algorithm::kGemm &&
             UsesRowStreaming(reader, between, output);
    default:
      return false;
  }
}

bool TaskReadsPitched(const Operator& op) {
  switch (op.type) {
    case OperatorType::kConv2D:
      return op.algorithm != Algorithm::kDirect;
    case OperatorType::kSepConv:  // the pass for its Relu reads any layout
      return op.pre_activation != Activation::kNone && !op.residual;
    case OperatorType::kConv2DTranspose:
    case OperatorType::kPool:
    case OperatorType::kMatMul:
      return false;  // oneDNN's primitives need dense tensors
    default:
      return true;
  }
}

}  // namespace ios::cpu
