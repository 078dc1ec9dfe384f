// Normalize, Softmax and Lrn.

#include "cc/core/limits.h"
#include "cc/core/ops/definition.h"

namespace ios {
constexpr OperatorDefinition kNormalizeDefinition = [] {
  OperatorDefinition normalize{"normalize"};
  normalize.shape = [](const Operator& op,
                       const Shapes& in) -> StatusOr<Shape> {
    if (in[0].back() % op.groups == 0) return in[0];
    return GroupsDoNotDivide(op.groups, "channels", in[0].back());
  };
  normalize.weights = [](const Operator&, const Shape& x) {
    return Shapes{{x.back()}, {x.back()}};
  };
  return normalize;
}();

constexpr OperatorDefinition kSoftmaxDefinition{"softmax"};

constexpr OperatorDefinition kLrnDefinition = [] {
  OperatorDefinition lrn{"lrn"};
  lrn.reads_images = true;
  lrn.flops = [](const Operator& op, const Shapes& in, const Shape&) {
    return SaturatingProduct({NumElements(in[0]), 2 * op.depth_radius + 2});
  };
  return lrn;
}();

}  // namespace ios
