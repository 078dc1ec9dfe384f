#include "cc/engine/cpu/tasks.h"

#include <array>
#include <new>
#include <string>

#include "cc/engine/cpu/kernels.h"

namespace ios::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

constexpr auto kF32 = memory::data_type::f32;

memory::desc NhwcDesc(const Shape& s) {
  return memory::desc({s[0], s[3], s[1], s[2]}, kF32, Tag::nhwc);
}
memory::desc FlatDesc(int64_t n) { return memory::desc({n}, kF32, Tag::a); }

void AppendActivation(Activation activation, dnnl::post_ops* ops) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return ops->append_eltwise(algorithm::eltwise_relu, 0, 0);
    case Activation::kRelu6:
      return ops->append_eltwise(algorithm::eltwise_clip, 0, 6);
    case Activation::kSigmoid:
      return ops->append_eltwise(algorithm::eltwise_logistic, 0, 0);
    case Activation::kTanh:
      return ops->append_eltwise(algorithm::eltwise_tanh, 0, 0);
    case Activation::kSwish:
      return ops->append_eltwise(algorithm::eltwise_swish, 1, 0);
    case Activation::kHardSigmoid:
      return ops->append_eltwise(algorithm::eltwise_hardsigmoid, 1.0f / 6, 0.5);
    case Activation::kHardSwish:
      return ops->append_eltwise(algorithm::eltwise_hardswish, 1.0f / 6, 0.5);
    case Activation::kElu:
      return ops->append_eltwise(algorithm::eltwise_elu, 1, 0);
  }
}

// A oneDNN primitive with the memory objects it is called with.
class Primitive {
 public:
  Primitive() = default;

  template <typename PrimitiveDesc>
  void Create(const PrimitiveDesc& desc, const dnnl::engine& engine) {
    primitive_ = dnnl::primitive(desc);
    engine_ = engine;
    const memory::desc scratchpad = desc.scratchpad_desc();
    scratchpad_floats_ = (scratchpad.get_size() + 3) / 4;
    if (scratchpad_floats_ > 0) {
      scratchpad_ = AddArgument(DNNL_ARG_SCRATCHPAD, scratchpad);
    }
  }

  // An argument whose address is given at every call. Returns its number.
  int AddArgument(int kind, const memory::desc& desc) {
    return AddArgument(kind, memory(desc, engine_, nullptr));
  }
  // An argument that stays.
  int AddArgument(int kind, memory value) {
    memories_.push_back(std::move(value));
    arguments_.push_back({kind, memories_.back().get()});
    return static_cast<int>(memories_.size()) - 1;
  }

  void Set(int argument, const float* data) {
    dnnl_memory_set_data_handle(memories_[argument].get(),
                                const_cast<float*>(data));
  }

  int64_t scratchpad_floats() const { return scratchpad_floats_; }

  void Execute(dnnl_stream_t stream, float* scratchpad) {
    if (scratchpad_ >= 0) Set(scratchpad_, scratchpad);
    // Cannot fail: arguments were checked when the primitive was made.
    dnnl_primitive_execute(primitive_.get(), stream, arguments_.size(),
                           arguments_.data());
  }

 private:
  dnnl::primitive primitive_;
  dnnl::engine engine_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  int scratchpad_ = -1;
  int64_t scratchpad_floats_ = 0;
};

dnnl::primitive_attr AttributesWith(const dnnl::post_ops& ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(ops);
  return attributes;
}

// Hands out pieces of a task's scratch memory.
class ScratchLayout {
 public:
  int64_t Take(int64_t floats) {
    const int64_t offset = floats_;
    floats_ += (floats + 15) / 16 * 16;
    return offset;
  }
  int64_t floats() const { return floats_; }

 private:
  int64_t floats_ = 0;
};

// Gives dense access to an input that may be pitched, through scratch memory.
class DenseInput {
 public:
  DenseInput(const TensorView& view, ScratchLayout* scratch) : view_(view) {
    if (!view.dense()) offset_ = scratch->Take(NumElements(view.shape));
  }
  const float* Get(const float* data, float* scratch) const {
    if (view_.dense()) return data;
    Copy({data, view_}, {scratch + offset_, DenseView(view_.shape)});
    return scratch + offset_;
  }

 private:
  TensorView view_;
  int64_t offset_ = 0;
};

// The same for the output: kernels write to Begin(), Finish() puts it in place.
class DenseOutput {
 public:
  DenseOutput(const TensorView& view, ScratchLayout* scratch) : view_(view) {
    if (!view.dense()) offset_ = scratch->Take(NumElements(view.shape));
  }
  float* Begin(float* data, float* scratch) const {
    return view_.dense() ? data : scratch + offset_;
  }
  void Finish(float* data, float* scratch) const {
    if (view_.dense()) return;
    Copy({scratch + offset_, DenseView(view_.shape)}, {data, view_});
  }

 private:
  TensorView view_;
  int64_t offset_ = 0;
};

CpuParameter* AsCpu(const std::shared_ptr<Parameter>& parameter) {
  return static_cast<CpuParameter*>(parameter.get());
}

// One convolution of dense tensors: filter [+ bias] [+ residual] + activation.
class Convolution {
 public:
  // `groups` > 1 splits channels; the filter is TensorFlow's [kh,kw,C/g,O].
  void Create(const dnnl::engine& engine, const Operator& op, int64_t groups,
              int64_t filters, const Shape& input, const Shape& output,
              CpuParameter* filter, CpuParameter* bias, bool residual,
              Activation activation) {
    const auto [kh, kw] = op.kernel;
    const int64_t in = input[3] / groups, out = filters / groups;
    const Dims strides = {1, filters, kw * in * filters, in * filters};
    Dims dims = {out, in, kh, kw};
    Dims plain_strides = strides;
    if (groups > 1) {
      dims.insert(dims.begin(), groups);
      plain_strides.insert(plain_strides.begin(), out);
    }
    // Groups divide the last dimension of TensorFlow's [kh, kw, in, filters].
    const memory::desc plain(dims, kF32, plain_strides);
    dnnl::post_ops ops;
    const memory::desc target = NhwcDesc(output);
    if (residual) ops.append_binary(algorithm::binary_add, target);
    AppendActivation(activation, &ops);
    const std::array<int64_t, 4> pad = ExplicitPadding(op, input);
    const dnnl::convolution_forward::primitive_desc desc(
        engine, dnnl::prop_kind::forward_inference,
        algorithm::convolution_direct, NhwcDesc(input),
        memory::desc(dims, kF32, Tag::any),
        bias ? FlatDesc(filters) : memory::desc(), target,
        {op.strides[0], op.strides[1]},
        {op.dilations[0] - 1, op.dilations[1] - 1}, {pad[0], pad[2]},
        {pad[1], pad[3]}, AttributesWith(ops));
    primitive_.Create(desc, engine);
    source_ = primitive_.AddArgument(DNNL_ARG_SRC, desc.src_desc());
    target_ = primitive_.AddArgument(DNNL_ARG_DST, desc.dst_desc());
    primitive_.AddArgument(
        DNNL_ARG_WEIGHTS, filter->Packed(engine, plain, desc.weights_desc()));
    if (bias) {
      primitive_.AddArgument(
          DNNL_ARG_BIAS,
          bias->Packed(engine, FlatDesc(filters), desc.bias_desc()));
    }
    if (residual) {
      residual_ = primitive_.AddArgument(
          DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, target);
    }
  }

  int64_t scratchpad_floats() const { return primitive_.scratchpad_floats(); }

  void Run(const float* source, const float* residual, float* target,
           dnnl_stream_t stream, float* scratchpad) {
    primitive_.Set(source_, source);
    primitive_.Set(target_, target);
    if (residual_ >= 0) primitive_.Set(residual_, residual);
    primitive_.Execute(stream, scratchpad);
  }

 private:
  Primitive primitive_;
  int source_ = -1, target_ = -1, residual_ = -1;
};

class ConvTask : public CpuTask {
 public:
  ConvTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_(spec.inputs[0], &scratch_),
        residual_(spec.inputs.back(), &scratch_),
        output_(spec.output, &scratch_),
        has_residual_(spec.op->residual) {
    const Operator& op = *spec.op;
    convolution_.Create(engine, op, op.groups, op.filters, spec.inputs[0].shape,
                        spec.output.shape, AsCpu(spec.parameters[0]),
                        op.bias ? AsCpu(spec.parameters[1]) : nullptr,
                        op.residual, op.activation);
    scratchpad_ = scratch_.Take(convolution_.scratchpad_floats());
  }

  int64_t scratch_floats() const override { return scratch_.floats(); }

  void Run(const float* const* inputs, float* output,
           const ExecutionContext& context) override {
    float* scratch = context.scratch;
    const float* residual =
        has_residual_ ? residual_.Get(inputs[1], scratch) : nullptr;
    convolution_.Run(input_.Get(inputs[0], scratch), residual,
                     output_.Begin(output, scratch), context.stream,
                     scratch + scratchpad_);
    output_.Finish(output, scratch);
  }

 private:
  ScratchLayout scratch_;
  DenseInput input_, residual_;
  DenseOutput output_;
  const bool has_residual_;
  Convolution convolution_;
  int64_t scratchpad_ = 0;
};

class SepConvTask : public CpuTask {
 public:
  SepConvTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_view_(spec.inputs[0]),
        activates_(spec.op->pre_activation != Activation::kNone),
        residual_(spec.inputs.back(), &scratch_),
        output_(spec.output, &scratch_),
        has_residual_(spec.op->residual) {
    const Operator& op = *spec.op;
    const Shape& in = spec.inputs[0].shape;
    const int64_t channels = in[3] * op.multiplier;
    Shape middle = spec.output.shape;
    middle[3] = channels;
    copies_ = activates_ || !input_view_.dense();
    if (copies_) activated_ = scratch_.Take(NumElements(in));
    middle_ = scratch_.Take(NumElements(middle));
    depthwise_.Create(engine, op, /*groups=*/in[3], channels, in, middle,
                      AsCpu(spec.parameters[0]), nullptr, false,
                      Activation::kNone);
    Operator pointwise;  // 1x1, stride 1
    pointwise_.Create(engine, pointwise, /*groups=*/1, op.filters, middle,
                      spec.output.shape, AsCpu(spec.parameters[1]),
                      op.bias ? AsCpu(spec.parameters[2]) : nullptr,
                      op.residual, op.activation);
    scratchpad_ = scratch_.Take(std::max(depthwise_.scratchpad_floats(),
                                         pointwise_.scratchpad_floats()));
  }

  int64_t scratch_floats() const override { return scratch_.floats(); }

  void Run(const float* const* inputs, float* output,
           const ExecutionContext& context) override {
    float* scratch = context.scratch;
    const float* x = inputs[0];
    if (copies_) {
      Activate({x, input_view_},
               activates_ ? Activation::kRelu : Activation::kNone,
               {scratch + activated_, DenseView(input_view_.shape)});
      x = scratch + activated_;
    }
    depthwise_.Run(x, nullptr, scratch + middle_, context.stream,
                   scratch + scratchpad_);
    const float* residual =
        has_residual_ ? residual_.Get(inputs[1], scratch) : nullptr;
    pointwise_.Run(scratch + middle_, residual, output_.Begin(output, scratch),
                   context.stream, scratch + scratchpad_);
    output_.Finish(output, scratch);
  }

 private:
  ScratchLayout scratch_;
  const TensorView input_view_;
  const bool activates_;
  DenseInput residual_;
  DenseOutput output_;
  const bool has_residual_;
  bool copies_ = false;
  Convolution depthwise_, pointwise_;
  int64_t activated_ = 0, middle_ = 0, scratchpad_ = 0;
};

// Pooling, softmax, matmul, eltwise: a primitive from one dense tensor to another.
class PrimitiveTask : public CpuTask {
 public:
  PrimitiveTask(const TaskSpec& spec, const dnnl::engine& engine)
      : input_(spec.inputs[0], &scratch_), output_(spec.output, &scratch_) {
    const Operator& op = *spec.op;
    const Shape& in = spec.inputs[0].shape;
    const Shape& out = spec.output.shape;
    switch (op.type) {
      case OperatorType::kPool: {
        const std::array<int64_t, 4> pad = ExplicitPadding(op, in);
        Create(dnnl::pooling_forward::primitive_desc(
                   engine, dnnl::prop_kind::forward_inference,
                   op.pool == PoolKind::kMax
                       ? algorithm::pooling_max
                       : algorithm::pooling_avg_exclude_padding,
                   NhwcDesc(in), NhwcDesc(out), {op.strides[0], op.strides[1]},
                   {op.kernel[0], op.kernel[1]}, {0, 0}, {pad[0], pad[2]},
                   {pad[1], pad[3]}, AttributesWith({})),
               engine);
        break;
      }
      case OperatorType::kSoftmax: {
        const memory::desc desc({NumElements(in) / in.back(), in.back()}, kF32,
                                Tag::ab);
        Create(dnnl::softmax_forward::primitive_desc(
                   engine, dnnl::prop_kind::forward_inference,
                   algorithm::softmax_accurate, desc, desc, /*axis=*/1,
                   AttributesWith({})),
               engine);
        break;
      }
      case OperatorType::kMatMul: {
        dnnl::post_ops ops;
        AppendActivation(op.activation, &ops);
        const memory::desc plain({in[1], out[1]}, kF32, Tag::ab);
        const memory::desc bias({1, out[1]}, kF32, Tag::ab);
        const dnnl::matmul::primitive_desc desc(
            engine, memory::desc({in[0], in[1]}, kF32, Tag::ab),
            memory::desc({in[1], out[1]}, kF32, Tag::any),
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
      default:  // an activation
        CreateEltwise(op.activation, NumElements(in), engine);
    }
    scratchpad_ = scratch_.Take(primitive_.scratchpad_floats());
  }

  int64_t scratch_floats() const override { return scratch_.floats(); }

  void Run(const float* const* inputs, float* output,
           const ExecutionContext& context) override {
    float* scratch = context.scratch;
    primitive_.Set(source_, input_.Get(inputs[0], scratch));
    primitive_.Set(target_, output_.Begin(output, scratch));
    primitive_.Execute(context.stream, scratch + scratchpad_);
    output_.Finish(output, scratch);
  }

 private:
  template <typename PrimitiveDesc>
  void Create(const PrimitiveDesc& desc, const dnnl::engine& engine) {
    primitive_.Create(desc, engine);
    source_ = primitive_.AddArgument(DNNL_ARG_SRC, desc.src_desc());
    target_ = primitive_.AddArgument(DNNL_ARG_DST, desc.dst_desc());
  }

  void CreateEltwise(Activation activation, int64_t n,
                     const dnnl::engine& engine) {
    dnnl::post_ops ops;
    AppendActivation(activation, &ops);
    algorithm kind;
    float alpha, beta;
    ops.get_params_eltwise(0, kind, alpha, beta);
    Create(dnnl::eltwise_forward::primitive_desc(
               engine, dnnl::prop_kind::forward_inference, kind, FlatDesc(n),
               FlatDesc(n), alpha, beta, AttributesWith({})),
           engine);
  }

  ScratchLayout scratch_;
  DenseInput input_;
  DenseOutput output_;
  Primitive primitive_;
  int source_ = -1, target_ = -1;
  int64_t scratchpad_ = 0;
};

// Operators of kernels.h. An activation that needs an exponential is a oneDNN
// primitive run in place afterwards.
class KernelTask : public CpuTask {
 public:
  KernelTask(const TaskSpec& spec, const dnnl::engine& engine)
      : op_(*spec.op),
        inputs_(spec.inputs),
        output_(spec.output),
        in_place_(spec.in_place),
        parameters_(spec.parameters),
        activation_(spec.op->activation) {
    if (!IsCheap(activation_)) {
      TaskSpec after;
      Operator op;
      op.type = OperatorType::kActivation;
      op.activation = activation_;
      after.op = &op;
      after.inputs = {spec.output};
      after.output = spec.output;
      after_ = std::make_unique<PrimitiveTask>(after, engine);
      activation_ = Activation::kNone;
    }
  }

  int64_t scratch_floats() const override {
    return after_ ? after_->scratch_floats() : 0;
  }

  void Run(const float* const* inputs, float* output,
           const ExecutionContext& context) override {
    const auto source = [&](size_t i) { return Source{inputs[i], inputs_[i]}; };
    const Target target{output, output_};
    switch (op_.type) {
      case OperatorType::kConcat: {
        int64_t channel = 0;
        for (size_t i = 0; i < inputs_.size(); ++i) {
          if (!in_place_[i]) {
            Copy(source(i),
                 {output + channel, {inputs_[i].shape, output_.pitch}});
          }
          channel += inputs_[i].channels();
        }
        break;
      }
      case OperatorType::kAdd: {
        std::vector<Source> terms;
        for (size_t i = 0; i < inputs_.size(); ++i) terms.push_back(source(i));
        Add(terms, activation_, target);
        break;
      }
      case OperatorType::kMultiply:
        Multiply(source(0), source(1), activation_, target);
        break;
      case OperatorType::kScale:
        Scale(source(0), AsCpu(parameters_[0])->plain(),
              AsCpu(parameters_[1])->plain(), activation_, target);
        break;
      case OperatorType::kGlobalPool:
        GlobalPool(source(0), op_.pool, target);
        break;
      case OperatorType::kPad:
        Pad(source(0), op_.padding, target);
        break;
      case OperatorType::kSlice:
        Copy({inputs[0] + op_.offset, {output_.shape, inputs_[0].pitch}},
             target);
        break;
      default:
        Activate(source(0), activation_, target);
    }
    if (after_) {
      const float* x = output;
      after_->Run(&x, output, context);
    }
  }

 private:
  const Operator op_;
  const std::vector<TensorView> inputs_;
  const TensorView output_;
  const std::vector<bool> in_place_;
  const std::vector<std::shared_ptr<Parameter>> parameters_;
  Activation activation_;
  std::unique_ptr<CpuTask> after_;
};

}  // namespace

CpuParameter::CpuParameter(const ConstArray& array, FloatPool* pool)
    : pool_(pool), plain_(array.data, array.data + NumElements(array.shape)) {}

memory CpuParameter::Packed(const dnnl::engine& engine,
                            const memory::desc& plain,
                            const memory::desc& wanted) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Layout& layout : packed_) {
    if (layout.memory.get_desc() == wanted) return layout.memory;
  }
  memory source = packed_.empty() ? memory(plain, engine, plain_.data())
                                  : packed_.front().memory;
  Layout layout;
  layout.data = pool_->Allocate((wanted.get_size() + 3) / 4);
  if (!layout.data) throw std::bad_alloc();
  layout.memory = memory(wanted, engine, layout.data.get());
  dnnl::stream stream(engine);
  dnnl::reorder(source, layout.memory).execute(stream, source, layout.memory);
  stream.wait();
  packed_.push_back(std::move(layout));
  std::vector<float>().swap(plain_);
  return packed_.back().memory;
}

StatusOr<std::unique_ptr<Task>> CompileTask(const TaskSpec& spec,
                                            const dnnl::engine& engine) {
  try {
    std::unique_ptr<Task> task;
    switch (spec.op->type) {
      case OperatorType::kConv2D:
        task = std::make_unique<ConvTask>(spec, engine);
        break;
      case OperatorType::kSepConv:
        task = std::make_unique<SepConvTask>(spec, engine);
        break;
      case OperatorType::kPool:
      case OperatorType::kSoftmax:
      case OperatorType::kMatMul:
        task = std::make_unique<PrimitiveTask>(spec, engine);
        break;
      case OperatorType::kActivation:
        if (!IsCheap(spec.op->activation)) {
          task = std::make_unique<PrimitiveTask>(spec, engine);
          break;
        }
        [[fallthrough]];
      default:
        task = std::make_unique<KernelTask>(spec, engine);
    }
    return task;
  } catch (const std::exception& e) {  // dnnl::error, std::bad_alloc
    return Internal(std::string("oneDNN cannot run ") +
                    ToString(spec.op->type) + " '" + spec.op->name +
                    "': " + e.what());
  }
}

bool TaskReadsPitched(const Operator& op) {
  switch (op.type) {
    case OperatorType::kConcat:
    case OperatorType::kAdd:
    case OperatorType::kMultiply:
    case OperatorType::kScale:
    case OperatorType::kGlobalPool:
    case OperatorType::kPad:
    case OperatorType::kSlice:
      return true;
    case OperatorType::kSepConv:  // its activation pass reads anything
      return op.pre_activation != Activation::kNone && !op.residual;
    case OperatorType::kActivation:
      return IsCheap(op.activation);
    default:
      return false;
  }
}

}  // namespace ios::cpu
