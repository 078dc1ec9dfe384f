// The list of all attributes of operators. The code that reads, writes and
// checks blocks is derived from this list.
#ifndef IOS_TF_CC_CORE_OPS_ATTRIBUTES_H_
#define IOS_TF_CC_CORE_OPS_ATTRIBUTES_H_

#include <cstdint>
#include <optional>

#include "cc/core/limits.h"
#include "cc/core/ops/operator.h"

namespace ios {

struct AttributeRules {
  // The smallest and largest value of an integer attribute (of each integer, if
  // the attribute has several).
  int64_t least = -kMaxDimension, most = kMaxDimension;
  // Operators of this type always have the attribute in their JSON. Operators
  // of other types have it only if its value differs from the default, so that
  // a new attribute does not change existing signatures.
  std::optional<OperatorType> always_in = std::nullopt;
};

// Calls visit(JSON key, pointer to member, rules) for each attribute. The
// parameters `alpha` and `beta` of an activation are read and written together
// with "activation".
template <typename Visitor>
void VisitAttributes(Visitor&& visit) {
  constexpr AttributeRules kAny, kNotNegative{0}, kPositive{1};
  visit("kernel", &Operator::kernel, kPositive);
  visit("strides", &Operator::strides, kPositive);
  visit("dilations", &Operator::dilations, kPositive);
  visit("padding", &Operator::padding, kAny);
  visit("filters", &Operator::filters, kAny);
  visit("groups", &Operator::groups, kPositive);
  visit("multiplier", &Operator::multiplier, kPositive);
  visit("bias", &Operator::bias, kAny);
  visit("residual", &Operator::residual, kAny);
  visit("pre_activation", &Operator::pre_activation, kAny);
  visit("activation", &Operator::activation, kAny);
  visit("algorithm", &Operator::algorithm, kAny);
  visit("pool", &Operator::pool, kAny);
  visit("keep_dims", &Operator::keep_dims, kAny);
  visit("pads_zeros", &Operator::pads_zeros, kAny);
  visit("offset", &Operator::offset, kAny);
  visit("size", &Operator::size, kAny);
  visit("interpolation", &Operator::interpolation, kAny);
  visit("coordinates", &Operator::coordinates, kAny);
  visit("output_size", &Operator::output_size, kNotNegative);
  visit("factors", &Operator::factors, kPositive);
  visit("like", &Operator::size_from_last_input, kAny);
  visit("function", &Operator::function,
        AttributeRules{-kMaxDimension, kMaxDimension, OperatorType::kBinary});
  visit("operand", &Operator::operand, kPositive);
  visit("swapped", &Operator::constant_first, kAny);
  visit("whole_images", &Operator::per_image, kAny);
  visit("epsilon", &Operator::epsilon, kAny);
  visit("pad_mode", &Operator::pad_mode, kAny);
  visit("pad_value", &Operator::pad_value, kAny);
  visit("channel_padding", &Operator::channel_padding, kNotNegative);
  // The limit is lower than for other attributes, because block_size is
  // squared.
  visit("block_size", &Operator::block_size, AttributeRules{1, 1 << 15});
  visit("depth_radius", &Operator::depth_radius, kNotNegative);
  visit("normalization", &Operator::normalization,
        AttributeRules{-kMaxDimension, kMaxDimension, OperatorType::kLrn});
}

// Checks that every integer is within the limits of its attribute.
Status CheckLimits(const Operator& op);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_ATTRIBUTES_H_
