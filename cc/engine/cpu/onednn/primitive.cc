#include "cc/engine/cpu/onednn/primitive.h"

namespace ios::cpu {

using dnnl::algorithm;
using dnnl::memory;

memory::desc NhwcDesc(const Shape& shape) {
  return memory::desc({shape[0], shape[3], shape[1], shape[2]},
                      memory::data_type::f32, memory::format_tag::nhwc);
}

memory::desc FlatDesc(int64_t n) {
  return memory::desc({n}, memory::data_type::f32, memory::format_tag::a);
}

Activation AppendActivation(const Activation& activation, dnnl::post_ops* ops) {
  const auto append = [&](algorithm kind, float alpha = 0.0f,
                          float beta = 0.0f) {
    ops->append_eltwise(kind, alpha, beta);
    return Activation::kNone;
  };
  switch (activation.kind) {
    case Activation::kSigmoid:
      return append(algorithm::eltwise_logistic);
    case Activation::kTanh:
      return append(algorithm::eltwise_tanh);
    case Activation::kHardSwish:
      return append(algorithm::eltwise_hardswish, 1.0f / 6, 0.5f);
    case Activation::kElu:
      return append(algorithm::eltwise_elu, activation.alpha);
    case Activation::kLeakyRelu:
      if (activation.alpha == 0.0f) return activation;  // oneDNN's relu
      return append(algorithm::eltwise_relu, activation.alpha);
    case Activation::kGeluTanh:
      return append(algorithm::eltwise_gelu_tanh);
    case Activation::kMish:
      return append(algorithm::eltwise_mish);
    case Activation::kSquare:
      return append(algorithm::eltwise_square);
    case Activation::kAbs:
      return append(algorithm::eltwise_abs);
    case Activation::kSqrt:
      return append(algorithm::eltwise_sqrt);
    default:
      return activation;
  }
}

dnnl::primitive_attr AttributesWith(const dnnl::post_ops& ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(ops);
  return attributes;
}

bool ThreadsWaitForEachOther(const std::string& implementation) {
  return implementation.find("gemm") != std::string::npos &&
         implementation.find("brgemm") == std::string::npos;
}

Primitive Primitive::Clone() const {
  Primitive clone = *this;
  for (size_t i = 0; i < memories_.size(); ++i) {
    clone.memories_[i] = memory(memories_[i].get_desc(), engine_,
                                memories_[i].get_data_handle());
    clone.arguments_[i].memory = clone.memories_[i].get();
  }
  return clone;
}

}  // namespace ios::cpu
