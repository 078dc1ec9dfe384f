#include "cc/tensorflow/graph/graph_view.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/graph/one_of.h"
#include "cc/tensorflow/graph/pure_nodes.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::grappler::GrapplerItem;

bool IsLoopMerge(const NodeDef& node, const std::string& input_op) {
  return OneOf(node.op(), {"Merge", "RefMerge"}) &&
         OneOf(input_op,
               {"Enter", "RefEnter", "NextIteration", "RefNextIteration"});
}

// Returns whether a tensor is far larger than its proto, because the proto
// stores one number for all elements. Trained models do not contain such
// tensors.
bool IsInflated(const tensorflow::TensorProto& proto) {
  constexpr int64_t kMany = int64_t{1} << 27;
  const int64_t most =
      std::max<int64_t>(kMany, 64 * static_cast<int64_t>(proto.ByteSizeLong()));
  int64_t elements = 1;
  for (const auto& dim : proto.tensor_shape().dim()) {
    if (dim.size() < 1) return false;
    if (elements > most / dim.size()) return true;
    elements *= dim.size();
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphView>> GraphView::Create(
    const GrapplerItem& item) {
  std::unique_ptr<GraphView> view(new GraphView);
  TF_RETURN_IF_ERROR(view->ReadEdges(item));
  TF_RETURN_IF_ERROR(view->SortNodes());
  view->ClassifyNodes();
  view->FindConsumers();
  view->cpu_ = std::make_unique<tensorflow::grappler::DeviceSimple>();
  return view;
}

int GraphView::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

std::string GraphView::Name(TensorRef tensor) const {
  const std::string& name = node(tensor.node).name();
  return tensor.port == 0 ? name : absl::StrCat(name, ":", tensor.port);
}

TensorRef GraphView::Resolve(TensorRef tensor) const {
  while (tensor.port < static_cast<int>(nodes_[tensor.node].forward.size())) {
    tensor = nodes_[tensor.node].forward[tensor.port];
  }
  return tensor;
}

absl::Status GraphView::ReadEdges(const GrapplerItem& item) {
  nodes_.resize(item.graph.node_size());
  for (int i = 0; i < item.graph.node_size(); ++i) {
    nodes_[i].def = &item.graph.node(i);
    if (!by_name_.emplace(node(i).name(), i).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the graph has two nodes named '", node(i).name(), "'"));
    }
  }
  std::vector<bool> consumed(size(), false);
  for (Node& node : nodes_) {
    for (const std::string& input : node.def->input()) {
      const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
      const auto it = by_name_.find(std::string(id.node()));
      if (it == by_name_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("node '", node.def->name(), "' reads '", input,
                         "', which is not in the graph"));
      }
      consumed[it->second] = true;
      if (id.index() < 0) {
        node.controls.push_back(it->second);
      } else {
        node.inputs.push_back({it->second, id.index()});
      }
    }
  }
  const std::unordered_set<std::string> keep = item.NodesToPreserve();
  for (int i = 0; i < size(); ++i) {
    nodes_[i].preserved = !consumed[i] || keep.count(node(i).name()) > 0;
  }
  for (const auto& feed : item.feed) {
    const tensorflow::TensorId id = tensorflow::ParseTensorName(feed.first);
    const int i = Find(std::string(id.node()));
    if (i >= 0) nodes_[i].fed = true;
  }
  return absl::OkStatus();
}

absl::Status GraphView::SortNodes() {
  std::vector<int> missing(size(), 0);
  std::vector<std::vector<int>> readers(size());
  for (int i = 0; i < size(); ++i) {
    const auto add = [&](int from) {
      const std::string& op = node(from).op();
      if (IsLoopMerge(node(i), op) && op != "Enter" && op != "RefEnter") return;
      readers[from].push_back(i);
      ++missing[i];
    };
    for (const TensorRef& t : nodes_[i].inputs) add(t.node);
    for (int c : nodes_[i].controls) add(c);
  }
  for (int i = 0; i < size(); ++i) {
    if (missing[i] == 0) order_.push_back(i);
  }
  for (size_t k = 0; k < order_.size(); ++k) {
    for (int reader : readers[order_[k]]) {
      if (--missing[reader] == 0) order_.push_back(reader);
    }
  }
  if (order_.size() != nodes_.size()) {
    return absl::InvalidArgumentError(
        "the graph has a cycle that is not a loop of TensorFlow 1");
  }
  return absl::OkStatus();
}

bool GraphView::variable(int i) const { return IsWeight(node(i)); }

void GraphView::ClassifyNodes() {
  for (int i : order_) {
    Node& node = nodes_[i];
    const std::string& op = node.def->op();
    // Computes how deeply the node is nested in conditionals and loops, whose
    // operations are Switch, Merge, Enter and Exit after TensorFlow has lowered
    // If and While.
    int deepest = 0, shallowest = node.inputs.empty() ? 0 : INT32_MAX;
    bool loop_merge = false;
    for (const TensorRef& t : node.inputs) {
      deepest = std::max(deepest, nodes_[t.node].depth);
      shallowest = std::min(shallowest, nodes_[t.node].depth);
      loop_merge =
          loop_merge || IsLoopMerge(*node.def, nodes_[t.node].def->op());
    }
    for (int c : node.controls) deepest = std::max(deepest, nodes_[c].depth);
    if (OneOf(op, {"Switch", "RefSwitch", "Enter", "RefEnter"})) {
      node.depth = deepest + 1;
    } else if (OneOf(op, {"Exit", "RefExit"})) {
      node.depth = std::max(deepest - 2, 0);
    } else if (OneOf(op, {"Merge", "RefMerge"}) && !loop_merge) {
      node.depth = std::max(shallowest - 1, 0);
    } else {
      node.depth = deepest;
    }

    const bool constant_inputs = std::all_of(
        node.inputs.begin(), node.inputs.end(),
        [&](const TensorRef& t) { return nodes_[t.node].constant; });
    node.effect = !OneOf(op, {"Placeholder", "_Arg", "Const", "VarHandleOp"}) &&
                  !IsWeight(*node.def) && !IsEvaluable(*node.def);
    for (const TensorRef& t : node.inputs) {
      node.effect = node.effect || nodes_[t.node].effect;
    }
    const bool waits = this->waits(i);
    node.effect = node.effect || waits;
    node.constant =
        !node.fed &&
        (op == "Const" || (op == "NoOp" && !waits) ||
         (!node.inputs.empty() && constant_inputs && IsEvaluable(*node.def)));
    if (!node.preserved && !node.constant && !waits && node.depth == 0 &&
        OneOf(op, {"Identity", "IdentityN", "StopGradient", "PreventGradient",
                   "Snapshot"})) {
      node.forward = node.inputs;
    }
  }
}

bool GraphView::waits(int i) const {
  return std::any_of(nodes_[i].controls.begin(), nodes_[i].controls.end(),
                     [&](int c) { return nodes_[c].effect; });
}

std::set<int> GraphView::WaitsFor(int i) const {
  std::set<int> result, seen = {i};
  std::vector<int> open = {i};
  while (!open.empty()) {
    const Node& node = nodes_[open.back()];
    open.pop_back();
    for (int c : node.controls) {
      if (nodes_[c].effect) result.insert(c);
    }
    for (const TensorRef& t : node.inputs) {
      const Node& read = nodes_[t.node];
      // Follows only inputs with an effect, because a node without an effect
      // never waits for a node with an effect.
      if (read.effect && (read.constant || variable(t.node) || !read.live) &&
          seen.insert(t.node).second) {
        open.push_back(t.node);
      }
    }
  }
  return result;
}

void GraphView::FindConsumers() {
  for (Node& node : nodes_) node.live = node.preserved;
  const auto read = [&](int i, const auto& visit) {
    for (size_t k = 0; k < nodes_[i].inputs.size(); ++k) {
      if (ignored_shapes_.count(i) > 0 &&
          static_cast<int>(k) == ShapeInput(i)) {
        continue;
      }
      visit(Resolve(nodes_[i].inputs[k]));
    }
  };
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    if (!nodes_[*it].live || passthrough(*it)) continue;
    read(*it, [&](TensorRef t) { nodes_[t.node].live = true; });
    for (int c : nodes_[*it].controls) nodes_[c].live = true;
  }
  // In a graph with a loop, all nodes count as live, because loops are not
  // analysed.
  for (Node& node : nodes_) {
    if (OneOf(node.def->op(), {"NextIteration", "RefNextIteration"})) {
      for (Node& any : nodes_) any.live = true;
      break;
    }
  }
  consumers_.clear();
  for (int i : order_) {
    if (!nodes_[i].live || passthrough(i)) continue;
    read(i, [&](TensorRef t) { consumers_[t].push_back(i); });
  }
}

const std::vector<int>& GraphView::Consumers(TensorRef tensor) const {
  static const std::vector<int>* const kNone = new std::vector<int>;
  const auto it = consumers_.find(tensor);
  return it == consumers_.end() ? *kNone : it->second;
}

int GraphView::OnlyConsumer(TensorRef tensor) const {
  const std::vector<int>& consumers = Consumers(tensor);
  return consumers.size() == 1 && !preserved(tensor.node) ? consumers[0] : -1;
}

bool GraphView::Evaluate(int i) {
  Node& node = nodes_[i];
  if (!node.constant) return false;
  if (node.evaluated) return !node.values.empty();
  node.evaluated = true;
  if (node.def->op() == "Const") {
    const auto value = node.def->attr().find("value");
    tensorflow::Tensor tensor;
    if (value == node.def->attr().end() || IsInflated(value->second.tensor()) ||
        !tensor.FromProto(value->second.tensor())) {
      return false;
    }
    node.values.push_back(std::move(tensor));
    return true;
  }
  absl::InlinedVector<tensorflow::TensorValue, 4> inputs, outputs;
  for (const TensorRef& t : node.inputs) {
    if (!Evaluate(t.node)) return false;
    std::vector<tensorflow::Tensor>& values = nodes_[t.node].values;
    if (t.port >= static_cast<int>(values.size())) return false;
    inputs.emplace_back(&values[t.port]);
  }
  NodeDef pure = *node.def;
  pure.clear_device();
  const absl::Status status = tensorflow::grappler::EvaluateNode(
      pure, inputs, cpu_.get(), /*resource_mgr=*/nullptr, &outputs);
  for (tensorflow::TensorValue& output : outputs) {
    if (status.ok() && output.tensor) node.values.push_back(*output.tensor);
    delete output.tensor;
  }
  return !node.values.empty();
}

const tensorflow::Tensor* GraphView::Constant(TensorRef tensor) {
  if (!Evaluate(tensor.node)) return nullptr;
  const std::vector<tensorflow::Tensor>& values = nodes_[tensor.node].values;
  return tensor.port < static_cast<int>(values.size()) ? &values[tensor.port]
                                                       : nullptr;
}

void GraphView::Alias(int node, TensorRef original) {
  nodes_[node].forward = {original};
  nodes_[original.node].aliases.push_back(node);
  FindConsumers();
}

int GraphView::ShapeInput(int i) const {
  const std::string& op = node(i).op();
  if (op == "Conv2DBackpropInput") return 0;
  if (OneOf(op, {"BatchToSpaceND", "SpaceToBatchND"})) return 2;
  return OneOf(op, {"Reshape", "ResizeBilinear", "ResizeNearestNeighbor",
                    "Tile", "BroadcastTo"})
             ? 1
             : -1;
}

void GraphView::IgnoreShapeInputs(const std::set<int>& nodes) {
  ignored_shapes_ = nodes;
  FindConsumers();
}

}  // namespace ios::tf
