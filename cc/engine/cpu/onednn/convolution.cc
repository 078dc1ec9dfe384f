#include "cc/engine/cpu/onednn/convolution.h"

#include <array>

namespace ios::cpu {

using dnnl::algorithm;
using dnnl::memory;

memory::desc PlainFilterDesc(const Operator& op, int64_t groups,
                             int64_t channels, int64_t filters) {
  const auto [kh, kw] = op.kernel;
  const int64_t in = channels / groups, out = filters / groups;
  memory::dims dims = {out, in, kh, kw};
  memory::dims strides = {1, filters, kw * in * filters, in * filters};
  if (groups > 1) {
    dims.insert(dims.begin(), groups);
    strides.insert(strides.begin(), out);
  }
  return memory::desc(dims, memory::data_type::f32, strides);
}

template <typename PrimitiveDesc>
void Convolution::CreatePrimitive(const dnnl::engine& engine,
                                  const PrimitiveDesc& desc,
                                  const memory::desc& plain,
                                  const ConvolutionWeights& weights) {
  primitive_.Create(desc, engine);
  source_ = primitive_.AddArgument(DNNL_ARG_SRC, desc.src_desc());
  target_ = primitive_.AddArgument(DNNL_ARG_DST, desc.dst_desc());
  primitive_.AddArgument(
      DNNL_ARG_WEIGHTS,
      weights.filter->Packed(engine, plain, desc.weights_desc()));
  if (weights.bias) {
    primitive_.AddArgument(
        DNNL_ARG_BIAS,
        weights.bias->Packed(engine, FlatDesc(desc.dst_desc().get_dims()[1]),
                             desc.bias_desc()));
  }
}

void Convolution::CreateTransposed(const dnnl::engine& engine,
                                   const Operator& op, const Shape& input,
                                   const Shape& output,
                                   const ConvolutionWeights& weights) {
  const memory::desc plain =
      PlainFilterDesc(op, /*groups=*/1, input[3], op.filters);
  dnnl::post_ops ops;
  rest_ = AppendActivation(op.activation, &ops);
  const std::array<int64_t, 4> cut = TransposedPadding(op, input, output);
  const dnnl::deconvolution_forward::primitive_desc desc(
      engine, dnnl::prop_kind::forward_inference,
      algorithm::deconvolution_direct, NhwcDesc(input),
      memory::desc(plain.get_dims(), memory::data_type::f32,
                   memory::format_tag::any),
      weights.bias ? FlatDesc(op.filters) : memory::desc(), NhwcDesc(output),
      {op.strides[0], op.strides[1]},
      {op.dilations[0] - 1, op.dilations[1] - 1}, {cut[0], cut[2]},
      {cut[1], cut[3]}, AttributesWith(ops));
  CreatePrimitive(engine, desc, plain, weights);
}

void Convolution::Create(const dnnl::engine& engine, const Operator& op,
                         const Shape& input, const Shape& output,
                         const ConvolutionWeights& weights) {
  if (op.type == OperatorType::kConv2DTranspose) {
    CreateTransposed(engine, op, input, output, weights);
    return;
  }
  const memory::desc plain =
      PlainFilterDesc(op, op.groups, input[3], op.filters);
  dnnl::post_ops ops;
  const memory::desc target = NhwcDesc(output);
  if (op.residual) ops.append_binary(algorithm::binary_add, target);
  rest_ = AppendActivation(op.activation, &ops);
  const std::array<int64_t, 4> pad = ExplicitPadding(op, input);
  const dnnl::convolution_forward::primitive_desc desc(
      engine, dnnl::prop_kind::forward_inference, algorithm::convolution_direct,
      NhwcDesc(input),
      memory::desc(plain.get_dims(), memory::data_type::f32,
                   memory::format_tag::any),
      weights.bias ? FlatDesc(op.filters) : memory::desc(), target,
      {op.strides[0], op.strides[1]},
      {op.dilations[0] - 1, op.dilations[1] - 1}, {pad[0], pad[2]},
      {pad[1], pad[3]}, AttributesWith(ops));
  CreatePrimitive(engine, desc, plain, weights);
  if (op.residual) {
    residual_ = primitive_.AddArgument(
        DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, target);
  }
}

Convolution Convolution::Clone() const {
  Convolution clone = *this;
  clone.primitive_ = primitive_.Clone();
  return clone;
}

void Convolution::Run(const float* source, const float* residual, float* target,
                      dnnl_stream_t stream, float* scratchpad) {
  primitive_.Set(source_, source);
  primitive_.Set(target_, target);
  if (residual_ >= 0) primitive_.Set(residual_, residual);
  primitive_.Execute(stream, scratchpad);
}

}  // namespace ios::cpu
