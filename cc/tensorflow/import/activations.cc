// Handlers of activations, and of selections that are parts of activations.
#include <cmath>

#include "cc/tensorflow/graph/elementwise.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

Result Activate(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  return Unary(in, i, *ActivationOf(node.op(), node));
}

Result Power(ImportContext& in, int i) {
  const std::optional<float> exponent = Scalar(in.Constant(i, 1));
  if (!exponent)
    return Refuse(Reason::kOperandNotConstant,
                  "the exponent is not a constant number");
  if (*exponent == 2.0f) return Unary(in, i, Activation::kSquare);
  for (float known : {3.0f, 4.0f, -1.0f, -2.0f, -3.0f, -4.0f, 0.5f, -0.5f}) {
    if (*exponent == known) return Unary(in, i, {Activation::kPow, known});
  }
  return Refuse(Reason::kAttribute,
                "the engine does not support this exponent");
}

Result Clip(ImportContext& in, int i) {
  const auto low = Scalar(in.Constant(i, 1)), high = Scalar(in.Constant(i, 2));
  if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high)) {
    return Refuse(Reason::kOperandNotConstant,
                  "the bounds are not finite constant numbers");
  }
  return Unary(in, i, {Activation::kClip, *low, *high});
}

// Returns the number that operand k of a selection is: a constant, or 0 if the
// operand is a ZerosLike of the result's shape. Appends the ZerosLike node to
// `nodes`.
std::optional<float> SelectedNumber(ImportContext& in, int i, int k,
                                    std::vector<int>* nodes) {
  const TensorRef value = in.Input(i, k);
  if (in.graph().node(value.node).op() == "ZerosLike" &&
      in.shapes().same_shape(value, {i, 0}) &&
      in.graph().OnlyConsumer(value) == i &&
      in.graph().controls(value.node).empty()) {
    nodes->push_back(value.node);
    return 0.0f;
  }
  return Scalar(in.Constant(i, k));
}

// Emits a Relu with a threshold: x where x > number, else 0.
Result Threshold(ImportContext& in, int i) {
  const TensorRef condition = in.Input(i, 0), x = in.Input(i, 1);
  const int greater = condition.node;
  std::vector<int> nodes = {i, greater};
  const std::optional<float> otherwise = SelectedNumber(in, i, 2, &nodes);
  if (in.graph().node(greater).op() != "Greater" || in.Input(greater, 0) != x ||
      in.graph().OnlyConsumer(condition) != i || otherwise != 0.0f) {
    return Refuse(Reason::kPattern,
                  "its condition is not a comparison with a threshold");
  }
  const std::optional<float> threshold = Scalar(in.Constant(greater, 1));
  if (!threshold || !std::isfinite(*threshold) ||
      !in.graph().controls(greater).empty()) {
    return Refuse(Reason::kOperandNotConstant,
                  "the threshold must be a constant without control inputs");
  }
  if (!in.InputShape(i, 1, {2, 4}) || !in.shapes().same_shape(x, {i, 0})) {
    return RefuseShape();
  }
  ImportedOperator op = in.Make(i, OperatorType::kActivation, {x});
  op.op.activation = {Activation::kThreshold, *threshold};
  op.nodes = std::move(nodes);
  return in.Emit(std::move(op));
}

// Emits a selection between two operands, each of which is a number or a tensor
// of the compared tensor's shape. The rule FuseActivation later finds the
// activation that contains the selection.
Result Select(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  if (Threshold(in, i).ok()) return absl::OkStatus();
  const int compares = in.Input(i, 0).node;
  Selection selection;
  selection.compares = graph.node(compares).op();
  // The condition may be an input of the graph or a constant, which has no
  // inputs.
  if (!selection.IsKnown() || graph.inputs(compares).size() != 2) {
    return Refuse(Reason::kPattern,
                  "the condition does not compare a tensor with a number");
  }
  const TensorRef x = in.Input(compares, 0), y = {i, 0};
  const std::optional<float> than = Scalar(in.Constant(compares, 1));
  if (!than || graph.OnlyConsumer({compares, 0}) != i ||
      !graph.controls(compares).empty() || !in.InputShape(i, 1, {2, 4}) ||
      shapes.dtype(x) != shapes.dtype(y) || !shapes.same_shape(x, y)) {
    return Refuse(Reason::kPattern,
                  "the condition does not compare a tensor with a number");
  }
  selection.than = *than;
  ImportedOperator op = in.Make(i, ImportedOperator::Kind::kSelect, {x});
  op.nodes.push_back(compares);
  for (const auto& [k, number] :
       {std::pair(1, &selection.first), std::pair(2, &selection.second)}) {
    const TensorRef value = in.Input(i, k);
    *number = SelectedNumber(in, i, k, &op.nodes);
    if (*number) continue;
    if (!shapes.same_shape(value, y)) {
      return Refuse(Reason::kPattern,
                    "the node selects between tensors of different shapes");
    }
    op.inputs.push_back(value);
  }
  op.selection = selection;
  return in.Emit(std::move(op));
}

}  // namespace

std::optional<Activation> ActivationOf(const std::string& op,
                                       const NodeDef& node) {
  const auto it = UnaryOperations().find(op);
  if (it == UnaryOperations().end()) return std::nullopt;
  if (op != "LeakyRelu") return it->second;
  const char* const alpha = node.op() == op ? "alpha" : "leakyrelu_alpha";
  return Activation(Activation::kLeakyRelu, Attr<float>(node, alpha, 0.2f));
}

Result Unary(ImportContext& in, int i, const Activation& activation, size_t k) {
  if (!in.InputShape(i, k, {2, 4})) return RefuseShape();
  // Equal activations of the same tensor are computed only once. NASNet has
  // five equal activations of a tensor.
  const int first = in.FirstOf(i, activation, in.Input(i, k));
  if (first != i && !in.graph().preserved(i) && !in.graph().waits(i) &&
      in.graph().node(first).device() == in.graph().node(i).device()) {
    in.graph().Alias(i, {first, 0});
    return absl::OkStatus();
  }
  ImportedOperator op = in.Make(i, OperatorType::kActivation, {in.Input(i, k)});
  op.op.activation = activation;
  return in.Emit(std::move(op));
}

HandlerTable ActivationHandlers() {
  HandlerTable table = {
      {"Pow", Power},
      {"ClipByValue", Clip},
      {"Select", Select},
      {"SelectV2", Select},
  };
  for (const auto& [op, activation] : UnaryOperations()) {
    table.emplace(op, Activate);
  }
  return table;
}

}  // namespace ios::tf
