// OperatorDefinition: the properties of a type of operators, apart from its
// kernels. Each family of types has a file in this folder. Kernels are in the
// folders of the devices (cc/engine).
#ifndef IOS_TF_CC_CORE_OPS_DEFINITION_H_
#define IOS_TF_CC_CORE_OPS_DEFINITION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cc/core/ops/operator.h"
#include "cc/core/status.h"

namespace ios {

// How an operator's output channels depend on its input channels.
enum class ChannelUse {
  kOther,
  kEach,  // each output channel depends on the input channel of the same index
  kSum,   // each output channel is a sum over all input channels
};

// The number of inputs of an operator is at least `least` and at most `most`.
struct Arity {
  size_t least, most;
};
using Shapes = std::vector<Shape>;

struct OperatorDefinition {
  static constexpr Arity One(const Operator&) { return {1, 1}; }
  static Status PaddingIsNotNegative(const Operator& op) {
    const Padding& p = op.padding;
    return p.top < 0 || p.bottom < 0 || p.left < 0 || p.right < 0
               ? InvalidArgument("padding must not be negative")
               : Status();
  }
  static StatusOr<Shape> ShapeOfInput(const Operator&, const Shapes& inputs) {
    return inputs[0];
  }
  static Shapes None(const Operator&, const Shape&) { return {}; }
  // The default for `flops`: one operation per element of the first input, for
  // each input.
  static int64_t OnePerElement(const Operator&, const Shapes& inputs,
                               const Shape&) {
    return NumElements(inputs[0]) * static_cast<int64_t>(inputs.size());
  }
  static ChannelUse OtherUse(const Operator&, int64_t) {
    return ChannelUse::kOther;
  }
  static ChannelUse EachChannel(const Operator&, int64_t) {
    return ChannelUse::kEach;
  }
  static ChannelUse SumOfChannels(const Operator&, int64_t) {
    return ChannelUse::kSum;
  }

  // The operator's name in JSON and in messages.
  const char* name;
  Arity (*arity)(const Operator&) = One;
  // Checks conditions that involve several attributes. Limits of single
  // attributes are in attributes.h.
  Status (*check)(const Operator&) = PaddingIsNotNegative;
  // Whether the first input must be [N,H,W,C].
  bool reads_images = false;
  // Implement InferShape, WeightShapes and Flops of operator.h. The callers
  // have already checked the ranks of `inputs`.
  StatusOr<Shape> (*shape)(const Operator&,
                           const Shapes& inputs) = ShapeOfInput;
  Shapes (*weights)(const Operator&, const Shape& input) = None;
  int64_t (*flops)(const Operator&, const Shapes& inputs,
                   const Shape& output) = OnePerElement;
  ChannelUse (*channels)(const Operator&, int64_t input_channels) = OtherUse;
  // Whether the operator can apply an activation to its output.
  bool activates = false;
  // Whether each element of the output depends only on the elements of the
  // inputs and weights at the same position.
  bool elementwise = false;
  // Returns whether the operator has a result for an image without pixels, as a
  // pool with padding does.
  bool (*reads_empty_images)(const Operator&) = [](const Operator&) {
    return false;
  };
};

#define IOS_OPERATOR(Name) extern const OperatorDefinition k##Name##Definition;
#include "cc/core/ops/operators.def"

const OperatorDefinition& DefinitionOf(OperatorType type);

// Returns an error such as "tensor [1,8] must have rank 4".
inline Status NotAsWanted(const Shape& input, const char* wanted) {
  return InvalidArgument("tensor " + ToString(input) + " must " + wanted);
}

// Returns an error such as "the number of channels, 8, must be a multiple of
// groups=3".
inline Status GroupsDoNotDivide(int64_t groups, const char* what,
                                int64_t number) {
  return InvalidArgument(
      std::string("the number of ") + what + ", " + std::to_string(number) +
      ", must be a multiple of groups=" + std::to_string(groups));
}

}  // namespace ios

#endif  // IOS_TF_CC_CORE_OPS_DEFINITION_H_
