#include "cc/tensorflow/convert/activation_nodes.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace ios::tf {

using ::tensorflow::AddNodeAttr;
using ::tensorflow::NodeDef;
using ::tensorflow::TensorShape;

std::string WriteActivation(const std::string& name,
                            const Activation& activation, const std::string& x,
                            NodeWriter* writer) {
  const float alpha = activation.alpha, beta = activation.beta;
  int made = 0;  // for unique names: an operation may occur twice
  const auto node = [&](const char* op,
                        const std::vector<std::string>& inputs) {
    return writer->Node(absl::StrCat(name, "/", op, "_", made++), op, inputs);
  };
  const auto unary = [&](const char* op, const std::string& input) {
    return node(op, {input})->name();
  };
  const auto binary = [&](const char* op, const std::string& a,
                          const std::string& b) {
    return node(op, {a, b})->name();
  };
  const auto scalar = [&](float value) {
    return writer->Const(absl::StrCat(name, "/constant_", made++),
                         MakeTensor({value}, TensorShape(), writer->dtype()));
  };
  const auto with = [&](const char* op, const std::string& a, float value) {
    return binary(op, a, scalar(value));
  };
  const auto clip = [&](const std::string& input, float low, float high) {
    return with("Maximum", with("Minimum", input, high), low);
  };
  const auto gate = [&](const std::string& g) { return binary("Mul", x, g); };
  switch (activation.kind) {
    case Activation::kNone:
      return x;
    case Activation::kSwish:
      return gate(unary("Sigmoid", alpha == 1.0f ? x : with("Mul", x, alpha)));
    case Activation::kHardSigmoid:
      return clip(with("AddV2", with("Mul", x, alpha), beta), 0.0f, 1.0f);
    case Activation::kHardSwish:
      return gate(
          with("Mul", unary("Relu6", with("AddV2", x, 3.0f)), 1.0f / 6.0f));
    case Activation::kElu:
      if (alpha == 1.0f) return unary("Elu", x);
      return binary("AddV2", unary("Relu", x),
                    with("Mul", unary("Elu", with("Minimum", x, 0.0f)), alpha));
    case Activation::kLeakyRelu: {
      NodeDef* const leaky = node("LeakyRelu", {x});
      AddNodeAttr("alpha", alpha, leaky);
      return leaky->name();
    }
    case Activation::kGelu:
      return binary("Mul", with("Mul", x, 0.5f),
                    unary("Erfc", with("Mul", x, -0.70710678f)));
    case Activation::kGeluTanh: {
      const std::string cube = with("Pow", x, 3.0f);
      const std::string sum = binary("AddV2", x, with("Mul", cube, 0.044715f));
      const std::string tanh = unary("Tanh", with("Mul", sum, 0.79788456f));
      return binary("Mul", with("Mul", x, 0.5f), with("AddV2", tanh, 1.0f));
    }
    case Activation::kMish:
      return gate(unary("Tanh", unary("Softplus", x)));
    case Activation::kMaximum:
      return with("Maximum", x, alpha);
    case Activation::kMinimum:
      return with("Minimum", x, alpha);
    case Activation::kClip:
      return clip(x, alpha, beta);
    case Activation::kThreshold: {
      const std::string above = with("Greater", x, alpha);
      return node("SelectV2", {above, x, scalar(0.0f)})->name();
    }
    case Activation::kPow:
      return with("Pow", x, alpha);
    default:
      return unary(activation.properties().tensorflow_op, x);
  }
}

}  // namespace ios::tf
