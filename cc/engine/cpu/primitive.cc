#include "cc/engine/cpu/primitive.h"

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

dnnl::primitive_attr AttributesWith(const dnnl::post_ops& ops) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_post_ops(ops);
  return attributes;
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
