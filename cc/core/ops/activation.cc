#include "cc/core/ops/activation.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ios {
namespace {

double AtLeast(double v, double low) { return std::max(v, low); }
double AtMost(double v, double high) { return std::min(v, high); }
double Relu6(double v) { return AtMost(AtLeast(v, 0), 6); }
double Sigmoid(double v) { return 1 / (1 + std::exp(-v)); }
double Softplus(double v) {
  return AtLeast(v, 0) + std::log1p(std::exp(-std::abs(v)));
}
double Elu(double v, double above, double below) {
  return v > 0 ? above * v : below * std::expm1(v);
}

}  // namespace

std::string ToString(const Activation& activation) {
  std::string text = activation.properties().name;
  if (activation == Activation(activation.kind)) return text;
  char numbers[40];
  std::snprintf(numbers, sizeof(numbers), "(%.9g, %.9g)", activation.alpha,
                activation.beta);
  return text + numbers;
}

Status CheckActivation(const Activation& activation) {
  const Activation::Properties& properties = activation.properties();
  const std::string name = properties.name;
  if (properties.parameters < 1 && activation.alpha != properties.alpha) {
    return InvalidArgument("the activation " + name +
                           " does not have the parameter alpha");
  }
  if (properties.parameters < 2 && activation.beta != properties.beta) {
    return InvalidArgument("the activation " + name +
                           " does not have the parameter beta");
  }
  const float exponent = std::abs(activation.alpha);
  if (activation.kind == Activation::kPow && exponent != 0.5f &&
      (exponent == 0.0f || exponent > 4.0f ||
       exponent != std::round(exponent))) {
    return InvalidArgument("the activation pow does not support the exponent " +
                           std::to_string(activation.alpha));
  }
  return Status();
}

double Exact(const Activation& activation, double v) {
  if (std::isnan(v)) return v;
  [[maybe_unused]] const double alpha = activation.alpha,
                                beta = activation.beta;
  switch (activation.kind) {
#define IOS_ACTIVATION(kind, name, parameters, a, b, definition, cuda, op) \
  case Activation::k##kind:                                                \
    return definition;
#include "cc/core/ops/activation.def"
  }
  return v;
}

}  // namespace ios
