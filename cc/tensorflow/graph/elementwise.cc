#include "cc/tensorflow/graph/elementwise.h"

namespace ios::tf {

const std::unordered_map<std::string, Activation>& UnaryOperations() {
  static const auto* const kOperations =
      new std::unordered_map<std::string, Activation>{
          {"Relu", Activation::kRelu},
          {"Relu6", Activation::kRelu6},
          {"LeakyRelu", Activation::kLeakyRelu},
          {"Elu", Activation::kElu},
          {"Selu", Activation::kSelu},
          {"Sigmoid", Activation::kSigmoid},
          {"Tanh", Activation::kTanh},
          {"Softplus", Activation::kSoftplus},
          {"Softsign", Activation::kSoftsign},
          {"Exp", Activation::kExp},
          {"Expm1", Activation::kExpm1},
          {"Log", Activation::kLog},
          {"Log1p", Activation::kLog1p},
          {"Sqrt", Activation::kSqrt},
          {"Rsqrt", Activation::kRsqrt},
          {"Square", Activation::kSquare},
          {"Abs", Activation::kAbs},
          {"Erf", Activation::kErf},
          {"Erfc", Activation::kErfc},
          {"Sin", Activation::kSin},
          {"Inv", {Activation::kPow, -1.0f}},
          {"Reciprocal", {Activation::kPow, -1.0f}},
  };
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
