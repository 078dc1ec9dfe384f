#include "cc/tensorflow/graph/elementwise.h"

namespace ios::tf {

const std::unordered_map<std::string, Activation>& UnaryOperations() {
  static const auto* const kOperations = [] {
    auto* operations = new std::unordered_map<std::string, Activation>{
        {"Inv", {Activation::kPow, -1.0f}},
        {"Reciprocal", {Activation::kPow, -1.0f}},
    };
    for (const Activation::Properties& known : Activation::kAll) {
      if (*known.tensorflow_op) {
        operations->emplace(known.tensorflow_op, known.kind);
      }
    }
    return operations;
  }();
  return *kOperations;
}

const std::unordered_map<std::string, BinaryFunction>& BinaryOperations() {
  static const auto* const kOperations =
      new std::unordered_map<std::string, BinaryFunction>{
          {"Add", BinaryFunction::kAdd},
          {"AddV2", BinaryFunction::kAdd},
          {"Sub", BinaryFunction::kSubtract},
          {"Mul", BinaryFunction::kMultiply},
          {"RealDiv", BinaryFunction::kDivide},
          {"Maximum", BinaryFunction::kMaximum},
          {"Minimum", BinaryFunction::kMinimum},
          {"SquaredDifference", BinaryFunction::kSquaredDifference},
  };
  return *kOperations;
}

}  // namespace ios::tf
