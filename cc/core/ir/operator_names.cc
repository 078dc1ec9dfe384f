#include "cc/core/ir/operator_names.h"

#include <cstdio>
#include <string>

namespace ios {

const char* ToString(OperatorType type) { return NameIn(kTypeNames, type); }
const char* ToString(Algorithm algorithm) {
  return NameIn(kAlgorithmNames, algorithm);
}
StatusOr<Algorithm> AlgorithmFromString(const std::string& text) {
  for (const auto& [algorithm, name] : kAlgorithmNames) {
    if (text == name) return algorithm;
  }
  return InvalidArgument("there is no algorithm '" + text + "'");
}
std::string ToString(const Activation& activation) {
  std::string text = NameIn(kActivationNames, activation.kind);
  if (activation == Activation(activation.kind)) return text;
  char numbers[40];
  std::snprintf(numbers, sizeof(numbers), "(%.9g, %.9g)", activation.alpha,
                activation.beta);
  return text + numbers;
}

}  // namespace ios
