// Sums, products, scales, activations and selections.
#include <algorithm>
#include <cmath>
#include <functional>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

namespace {

// Added to -0.0, which a factor may give, 0.0 would make it another number.
constexpr float kNoShift = -0.0f;

const std::unordered_map<std::string, Activation>& UnaryActivations() {
  static const auto* const kActivations =
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
  return *kActivations;
}

}  // namespace

std::optional<Activation> ActivationOf(const std::string& op,
                                       const NodeDef& node) {
  const auto it = UnaryActivations().find(op);
  if (it == UnaryActivations().end()) return std::nullopt;
  if (op != "LeakyRelu") return it->second;
  const char* const alpha = node.op() == op ? "alpha" : "leakyrelu_alpha";
  return Activation(Activation::kLeakyRelu, Attr<float>(node, alpha, 0.2f));
}

Result Importer::BiasAdd(int i) {
  const Shape* x = InputShape(i, 0, {2, 4});
  if (!x) return Refuse("unknown shape");
  auto shift = Channels(Constant(i, 1), *x);
  if (!shift) return Refuse("its bias is no constant");
  return EmitScale(i, graph_.Input(i, 0), std::vector<float>(x->back(), 1.0f),
                   std::move(*shift));
}

std::optional<BinaryFunction> Importer::FunctionOf(const std::string& op) {
  static const auto* const kFunctions =
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
  const auto it = kFunctions->find(op);
  if (it == kFunctions->end()) return std::nullopt;
  return it->second;
}

Result Importer::Arithmetic(int i) {
  if (Norm(i).ok()) return absl::OkStatus();
  for (int k : {0, 1}) {
    const Shape* x = InputShape(i, 1 - k, {2, 4});
    const Tensor* constant = x ? Constant(i, k) : nullptr;
    if (!constant) continue;
    if (ScaleOf(i, k, *x)) return absl::OkStatus();
    if (const auto bound = BoundOf(i, k, *x)) return Unary(i, *bound, 1 - k);
    return BinaryWithConstant(i, k, *x, *constant);
  }
  const Shape* x = InputShape(i, 0, {2, 4});
  const Shape* y = InputShape(i, 1, {2, 4});
  if (!x || !y || x->size() != y->size()) return Refuse("unknown shape");
  const TensorRef a = graph_.Input(i, 0), b = graph_.Input(i, 1);
  const BinaryFunction function = *FunctionOf(graph_.node(i).op());
  if (function == BinaryFunction::kAdd && graph_.same_shape(a, b)) {
    return Emit(Make(i, OperatorType::kAdd, {a, b}));
  }
  ImportedOperator op = Make(i, OperatorType::kBinary, {a, b});
  op.op.function = function;
  return Emit(std::move(op));
}

bool Importer::ScaleOf(int i, int k, const Shape& x) {
  const BinaryFunction function = *FunctionOf(graph_.node(i).op());
  const auto constant = PerChannel(Constant(i, k), x);
  if (!constant) return false;
  std::vector<float> scale(x.back(), 1.0f), shift(x.back(), kNoShift);
  for (size_t c = 0; c < scale.size(); ++c) {
    const float value = (*constant)[c];
    switch (function) {
      case BinaryFunction::kMultiply:
        scale[c] = value;
        break;
      case BinaryFunction::kDivide:
        // x / 2 is x * 0.5; 2 / x is no scale.
        if (k == 0) return false;
        scale[c] = 1.0f / value;
        break;
      case BinaryFunction::kSubtract:
        scale[c] = k == 0 ? -1.0f : 1.0f;
        shift[c] = k == 0 ? value : -value;
        break;
      case BinaryFunction::kAdd:
        shift[c] = value;
        break;
      default:
        return false;
    }
  }
  return EmitScale(i, graph_.Input(i, 1 - k), std::move(scale),
                   std::move(shift))
      .ok();
}

std::optional<Activation> Importer::BoundOf(int i, int k, const Shape& x) {
  const BinaryFunction function = *FunctionOf(graph_.node(i).op());
  const std::optional<float> bound = Scalar(Constant(i, k));
  if (!bound || !std::isfinite(*bound) ||
      Constant(i, k)->dims() > static_cast<int>(RankOf(x))) {
    return std::nullopt;
  }
  if (function == BinaryFunction::kMaximum) {
    return Activation(Activation::kMaximum, *bound);
  }
  if (function == BinaryFunction::kMinimum) {
    return Activation(Activation::kMinimum, *bound);
  }
  return std::nullopt;
}

Result Importer::BinaryWithConstant(int i, int k, const Shape& x,
                                    const Tensor& constant) {
  if (!ToDataType(constant.dtype()) || constant.NumElements() == 0 ||
      constant.dims() > static_cast<int>(RankOf(x))) {
    return Refuse("its constant operand does not fit");
  }
  ImportedOperator op =
      Make(i, OperatorType::kBinary, {graph_.Input(i, 1 - k)});
  op.op.function = *FunctionOf(graph_.node(i).op());
  op.op.swapped = k == 0;
  Shape shape(RankOf(x) - constant.dims(), 1);
  for (int d = 0; d < constant.dims(); ++d) {
    shape.push_back(constant.dim_size(d));
  }
  std::vector<float> values = Floats(constant);
  if (layout_ == Layout::kChannelsFirst && shape.size() == 4) {
    const std::vector<float> first = std::move(values);
    values.clear();
    const int64_t cells = shape[2] * shape[3];
    for (int64_t n = 0; n < shape[0]; ++n) {
      for (int64_t cell = 0; cell < cells; ++cell) {
        for (int64_t c = 0; c < shape[1]; ++c) {
          values.push_back(first[(n * shape[1] + c) * cells + cell]);
        }
      }
    }
  }
  op.op.operand = Logical(shape, 1, 1);
  op.weights = {std::move(values)};
  return Emit(std::move(op));
}

Result Importer::AddN(int i) {
  const size_t inputs = graph_.inputs(i).size();
  const Shape* x = InputShape(i, 0, {2, 4});
  if (!x || inputs < 2) return Refuse("unknown shape");
  std::vector<TensorRef> tensors;
  for (size_t k = 0; k < inputs; ++k) {
    if (!InputShape(i, k, {2, 4}) ||
        !graph_.same_shape(graph_.Input(i, k), graph_.Input(i, 0))) {
      return Refuse("unknown shape");
    }
    tensors.push_back(graph_.Input(i, k));
  }
  return Emit(Make(i, OperatorType::kAdd, std::move(tensors)));
}

Result Importer::SumOfPack(int i) {
  const NodeDef& node = graph_.node(i);
  const int pack = graph_.Input(i, 0).node;
  const Shape* shape = graph_.shape({i, 0});
  auto axes = Integers(Constant(i, 1));
  if (node.op() != "Sum" || graph_.node(pack).op() != "Pack" || !shape ||
      !axes || axes->size() != 1 || graph_.inputs(pack).size() < 2 ||
      Attr<bool>(node, "keep_dims", false)) {
    return Refuse("it is no sum of a list");
  }
  axes->push_back(Attr<int64_t>(graph_.node(pack), "axis", 0));
  for (int64_t& axis : *axes) {
    if (axis < 0) axis += RankOf(*shape) + 1;
  }
  if ((*axes)[0] != (*axes)[1]) return Refuse("it sums other dimensions");
  std::vector<TensorRef> tensors;
  for (size_t k = 0; k < graph_.inputs(pack).size(); ++k) {
    const TensorRef t = graph_.Input(pack, k);
    if (!InputShape(pack, k, {2, 4}) || !graph_.same_shape(t, {i, 0}) ||
        graph_.layout(t) != graph_.layout({i, 0})) {
      return Refuse("unknown shape");
    }
    tensors.push_back(t);
  }
  ImportedOperator op = Make(i, OperatorType::kAdd, std::move(tensors));
  op.nodes.push_back(pack);
  return Emit(std::move(op));
}

Result Importer::BatchNorm(int i) {
  const NodeDef& node = graph_.node(i);
  const Shape* x = InputShape(i, 0, {4});
  if (!x || Attr<bool>(node, "is_training", true)) {
    return Refuse("it is no batch norm of images in inference");
  }
  for (int port = 1; port < 6; ++port) {
    if (!graph_.Consumers({i, port}).empty()) {
      return Refuse("its statistics are read");
    }
  }
  if (graph_.preserved(i)) return Refuse("its statistics may be read");
  std::array<std::vector<float>, 4> values;  // gamma, beta, mean, variance
  for (int k = 0; k < 4; ++k) {
    auto value = Channels(Constant(i, k + 1), *x);
    if (!value) return Refuse("its statistics are no constants");
    values[k] = std::move(*value);
  }
  const float epsilon = Attr<float>(node, "epsilon", 1e-4f);
  std::vector<float> scale(x->back()), shift(x->back());
  for (size_t c = 0; c < scale.size(); ++c) {
    const double s =
        values[0][c] / std::sqrt(static_cast<double>(values[3][c]) + epsilon);
    scale[c] = s;
    shift[c] = values[1][c] - s * values[2][c];
  }
  return EmitScale(i, graph_.Input(i, 0), std::move(scale), std::move(shift));
}

Result Importer::Unary(int i, const Activation& activation, size_t k) {
  if (!InputShape(i, k, {2, 4})) return Refuse("unknown shape");
  // The same activation of the same tensor, computed once: NASNet has five.
  const NodeDef& node = graph_.node(i);
  const auto key = std::make_pair(activation, graph_.Input(i, k));
  const auto known = unary_.find(key);
  if (known != unary_.end() && !graph_.preserved(i) && !graph_.waits(i) &&
      graph_.node(known->second).device() == node.device()) {
    graph_.Alias(i, {known->second, 0});
    return absl::OkStatus();
  }
  unary_.emplace(key, i);
  ImportedOperator op =
      Make(i, OperatorType::kActivation, {graph_.Input(i, k)});
  op.op.activation = activation;
  return Emit(std::move(op));
}

Result Importer::Negative(int i) {
  const Shape* x = InputShape(i, 0, {2, 4});
  if (!x) return Refuse("unknown shape");
  return EmitScale(i, graph_.Input(i, 0), std::vector<float>(x->back(), -1.0f),
                   std::vector<float>(x->back(), kNoShift));
}

Result Importer::Power(int i) {
  const std::optional<float> exponent = Scalar(Constant(i, 1));
  if (!exponent) return Refuse("its exponent is no constant number");
  if (*exponent == 2.0f) return Unary(i, Activation::kSquare);
  for (float known : {3.0f, 4.0f, -1.0f, -2.0f, -3.0f, -4.0f, 0.5f, -0.5f}) {
    if (*exponent == known) return Unary(i, {Activation::kPow, known});
  }
  return Refuse("its exponent is none that the engine knows");
}

Result Importer::Clip(int i) {
  const auto low = Scalar(Constant(i, 1)), high = Scalar(Constant(i, 2));
  if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high)) {
    return Refuse("its bounds are no constant numbers");
  }
  return Unary(i, {Activation::kClip, *low, *high});
}

std::optional<float> Importer::SelectedNumber(int i, int k,
                                              std::vector<int>* nodes) {
  const TensorRef value = graph_.Input(i, k);
  if (graph_.node(value.node).op() == "ZerosLike" &&
      graph_.same_shape(value, {i, 0}) && OnlyConsumer(value) == i &&
      graph_.controls(value.node).empty()) {
    nodes->push_back(value.node);
    return 0.0f;
  }
  return Scalar(Constant(i, k));
}

Result Importer::Threshold(int i) {
  const TensorRef condition = graph_.Input(i, 0), x = graph_.Input(i, 1);
  const int greater = condition.node;
  std::vector<int> nodes = {i, greater};
  const std::optional<float> otherwise = SelectedNumber(i, 2, &nodes);
  if (graph_.node(greater).op() != "Greater" || graph_.Input(greater, 0) != x ||
      OnlyConsumer(condition) != i || otherwise != 0.0f) {
    return Refuse("it is no threshold");
  }
  const std::optional<float> threshold = Scalar(Constant(greater, 1));
  if (!threshold || !std::isfinite(*threshold) ||
      !graph_.controls(greater).empty()) {
    return Refuse("its threshold is no constant number");
  }
  if (!InputShape(i, 1, {2, 4}) || !graph_.same_shape(x, {i, 0})) {
    return Refuse("unknown shape");
  }
  ImportedOperator op = Make(i, OperatorType::kActivation, {x});
  op.op.activation = {Activation::kThreshold, *threshold};
  op.nodes = std::move(nodes);
  return Emit(std::move(op));
}

Result Importer::Select(int i) {
  if (Threshold(i).ok()) return absl::OkStatus();
  const int compares = graph_.Input(i, 0).node;
  Selection selection;
  selection.compares = graph_.node(compares).op();
  // An input or a constant reads nothing.
  if (!selection.IsKnown() || graph_.inputs(compares).size() != 2) {
    return Refuse("it selects by no comparison with a number");
  }
  const TensorRef x = graph_.Input(compares, 0), y = {i, 0};
  const std::optional<float> than = Scalar(Constant(compares, 1));
  if (!than || OnlyConsumer({compares, 0}) != i ||
      !graph_.controls(compares).empty() || !InputShape(i, 1, {2, 4}) ||
      graph_.dtype(x) != graph_.dtype(y) || !graph_.same_shape(x, y)) {
    return Refuse("it selects by no comparison with a number");
  }
  selection.than = *than;
  ImportedOperator op = Make(i, OperatorType::kActivation, {x});
  op.kind = ImportedOperator::Kind::kSelect;
  op.nodes.push_back(compares);
  for (const auto& [k, number] :
       {std::pair(1, &selection.first), std::pair(2, &selection.second)}) {
    const TensorRef value = graph_.Input(i, k);
    *number = SelectedNumber(i, k, &op.nodes);
    if (*number) continue;
    if (!graph_.same_shape(value, y)) {
      return Refuse("it selects from tensors of several shapes");
    }
    op.inputs.push_back(value);
  }
  op.selection = selection;
  return Emit(std::move(op));
}

}  // namespace ios::tf
