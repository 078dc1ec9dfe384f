#include "cc/tensorflow/graph_index.h"

#include <algorithm>
#include <array>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/shape_inference.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::grappler::GrapplerItem;

bool OneOf(const std::string& op, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return op == name; });
}

bool IsLoopMerge(const NodeDef& node, const std::string& input_op) {
  return OneOf(node.op(), {"Merge", "RefMerge"}) &&
         OneOf(input_op, {"Enter", "RefEnter", "NextIteration",
                          "RefNextIteration"});
}

// A function of its inputs alone, that TensorFlow can evaluate by itself.
bool IsPure(const NodeDef& node) {
  const tensorflow::OpDef* op = nullptr;
  if (!tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok()) {
    return false;
  }
  if (op->is_stateful()) return false;
  for (const auto& attr : op->attr()) {
    if (attr.type() == "func" || attr.type() == "list(func)") return false;
  }
  return !OneOf(node.op(),
                {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault",
                 "_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "Switch",
                 "Merge", "Enter", "Exit", "NextIteration", "LoopCond",
                 "IosRegion", "IosStageLatency"});
}

// The shape of an input of the graph, if it is one of images; or null.
const tensorflow::TensorShapeProto* ImageShape(const NodeDef& node) {
  const tensorflow::TensorShapeProto* shape = nullptr;
  if (node.op() == "Placeholder") {
    const auto attr = node.attr().find("shape");
    if (attr != node.attr().end()) shape = &attr->second.shape();
  } else if (node.op() == "_Arg") {
    const auto attr = node.attr().find("_output_shapes");
    if (attr != node.attr().end() && attr->second.list().shape_size() == 1) {
      shape = &attr->second.list().shape(0);
    }
  }
  return shape && !shape->unknown_rank() && shape->dim_size() == 4 ? shape
                                                                   : nullptr;
}

// The dimensions of an image's shape that are its height and width.
std::array<int, 2> HeightAndWidth(const tensorflow::TensorShapeProto& shape) {
  const bool channels_first =
      shape.dim(3).size() < 0 && shape.dim(1).size() >= 0;
  return channels_first ? std::array<int, 2>{2, 3} : std::array<int, 2>{1, 2};
}

void SetImageShape(tensorflow::TensorShapeProto shape, NodeDef* node) {
  if (node->op() == "_Arg") {
    *(*node->mutable_attr())["_output_shapes"].mutable_list()->mutable_shape(0) =
        std::move(shape);
  } else {
    *(*node->mutable_attr())["shape"].mutable_shape() = std::move(shape);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphIndex>> GraphIndex::Create(
    const GrapplerItem& item, int64_t batch_size, int64_t image_size) {
  std::unique_ptr<GraphIndex> index(new GraphIndex);
  TF_RETURN_IF_ERROR(index->ReadEdges(item));
  TF_RETURN_IF_ERROR(index->SortNodes());
  TF_RETURN_IF_ERROR(index->ReadShapes(item, batch_size, image_size));
  index->ClassifyNodes(item);
  index->FindConsumers();
  index->cpu_ = std::make_unique<tensorflow::grappler::DeviceSimple>();
  return index;
}

int GraphIndex::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? -1 : it->second;
}

std::string GraphIndex::Name(TensorRef tensor) const {
  const std::string& name = node(tensor.node).name();
  return tensor.port == 0 ? name : absl::StrCat(name, ":", tensor.port);
}

TensorRef GraphIndex::Resolve(TensorRef tensor) const {
  while (tensor.port < static_cast<int>(nodes_[tensor.node].forward.size())) {
    tensor = nodes_[tensor.node].forward[tensor.port];
  }
  return tensor;
}

absl::Status GraphIndex::ReadEdges(const GrapplerItem& item) {
  nodes_.resize(item.graph.node_size());
  for (int i = 0; i < item.graph.node_size(); ++i) {
    nodes_[i].def = &item.graph.node(i);
    if (!by_name_.emplace(node(i).name(), i).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the graph has two nodes '", node(i).name(), "'"));
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
  return absl::OkStatus();
}

absl::Status GraphIndex::SortNodes() {
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
    return absl::InvalidArgumentError("the graph has a cycle");
  }
  return absl::OkStatus();
}

absl::Status GraphIndex::ReadShapes(const GrapplerItem& item,
                                    int64_t batch_size, int64_t image_size) {
  const auto inputs_of_size = [&](int64_t size) {
    GrapplerItem sized = item;
    for (NodeDef& node : *sized.graph.mutable_node()) {
      const auto* shape = ImageShape(node);
      if (!shape) continue;
      tensorflow::TensorShapeProto known = *shape;
      if (known.dim(0).size() < 0) known.mutable_dim(0)->set_size(batch_size);
      for (int d : HeightAndWidth(*shape)) {
        if (known.dim(d).size() < 0) known.mutable_dim(d)->set_size(size);
      }
      SetImageShape(std::move(known), &node);
    }
    return sized;
  };
  bool unknown_batch = false, unknown_size = false;
  for (const NodeDef& node : item.graph.node()) {
    const auto* shape = ImageShape(node);
    if (!shape) continue;
    unknown_batch = unknown_batch || shape->dim(0).size() < 0;
    for (int d : HeightAndWidth(*shape)) {
      unknown_size = unknown_size || shape->dim(d).size() < 0;
    }
  }
  if (!unknown_batch && !unknown_size) {
    return InferShapes(item, batch_size, &Node::shapes);
  }
  TF_RETURN_IF_ERROR(
      InferShapes(inputs_of_size(image_size), batch_size, &Node::shapes));
  if (!unknown_size) return absl::OkStatus();
  return InferShapes(inputs_of_size(image_size + 96), batch_size,
                     &Node::other_shapes);
}

absl::Status GraphIndex::InferShapes(
    const GrapplerItem& item, int64_t batch_size,
    std::vector<std::optional<Shape>> Node::* shapes) {
  tensorflow::grappler::GraphProperties properties(item);
  TF_RETURN_IF_ERROR(properties.InferStatically(
      /*assume_valid_feeds=*/true, /*aggressive_shape_inference=*/true,
      /*include_tensor_values=*/false));
  OutputProperties outputs;
  std::vector<std::vector<TensorRef>> inputs;
  for (const Node& node : nodes_) {
    outputs.push_back(properties.GetOutputProperties(node.def->name()));
    inputs.push_back(node.inputs);
  }
  CompleteShapes(item.graph, order_, inputs, &outputs);
  for (Node& node : nodes_) {
    node.dtypes.clear();
    for (const auto& output : outputs[&node - nodes_.data()]) {
      node.dtypes.push_back(output.dtype());
      std::optional<Shape>& result = (node.*shapes).emplace_back();
      const tensorflow::TensorShapeProto& proto = output.shape();
      if (!tensorflow::DataTypeIsFloating(output.dtype()) ||
          proto.unknown_rank()) {
        continue;
      }
      Shape shape;
      for (const auto& dim : proto.dim()) shape.push_back(dim.size());
      if (!shape.empty() && shape[0] < 0) shape[0] = batch_size;
      if (std::all_of(shape.begin(), shape.end(),
                      [](int64_t d) { return d >= 0; })) {
        result = std::move(shape);
      }
    }
  }
  return absl::OkStatus();
}

bool GraphIndex::fixed_size(TensorRef tensor) const {
  const Node& node = nodes_[tensor.node];
  return node.other_shapes.empty() ||
         (tensor.port < static_cast<int>(node.shapes.size()) &&
          node.shapes[tensor.port] == node.other_shapes[tensor.port]);
}

void GraphIndex::ClassifyNodes(const GrapplerItem& item) {
  for (const auto& feed : item.feed) {
    const int i =
        Find(std::string(tensorflow::ParseTensorName(feed.first).node()));
    if (i >= 0) nodes_[i].fed = true;
  }
  for (int i : order_) {
    Node& node = nodes_[i];
    const std::string& op = node.def->op();
    // Depth in conditionals and loops, after TensorFlow's lowering of If and
    // While to these operations.
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
    // A control input that is constant has nothing to wait for.
    const bool waits =
        std::any_of(node.controls.begin(), node.controls.end(),
                    [&](int c) { return !nodes_[c].constant; });
    node.constant =
        !node.fed &&
        (op == "Const" || (op == "NoOp" && !waits) ||
         (!node.inputs.empty() && constant_inputs && IsPure(*node.def)));
    if (!node.preserved && !node.constant && !waits && node.depth == 0 &&
        OneOf(op, {"Identity", "IdentityN", "StopGradient", "PreventGradient",
                   "Snapshot"})) {
      node.forward = node.inputs;
    }
  }
}

void GraphIndex::FindConsumers() {
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
  // Loops are not worth following: all that feeds a back edge lives.
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

const std::vector<int>& GraphIndex::Consumers(TensorRef tensor) const {
  static const std::vector<int>* const kNone = new std::vector<int>;
  const auto it = consumers_.find(tensor);
  return it == consumers_.end() ? *kNone : it->second;
}

bool GraphIndex::Evaluate(int i) {
  Node& node = nodes_[i];
  if (!node.constant) return false;
  if (node.evaluated) return !node.values.empty();
  node.evaluated = true;
  if (node.def->op() == "Const") {
    const auto value = node.def->attr().find("value");
    tensorflow::Tensor tensor;
    if (value == node.def->attr().end() ||
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

const tensorflow::Tensor* GraphIndex::Constant(TensorRef tensor) {
  if (!Evaluate(tensor.node)) return nullptr;
  const std::vector<tensorflow::Tensor>& values = nodes_[tensor.node].values;
  return tensor.port < static_cast<int>(values.size()) ? &values[tensor.port]
                                                       : nullptr;
}

const Shape* GraphIndex::shape(TensorRef tensor) const {
  const auto& shapes = nodes_[tensor.node].shapes;
  if (tensor.port >= static_cast<int>(shapes.size())) return nullptr;
  return shapes[tensor.port] ? &*shapes[tensor.port] : nullptr;
}

tensorflow::DataType GraphIndex::dtype(TensorRef tensor) const {
  const auto& dtypes = nodes_[tensor.node].dtypes;
  return tensor.port < static_cast<int>(dtypes.size()) ? dtypes[tensor.port]
                                                       : tensorflow::DT_INVALID;
}

void GraphIndex::SetChannelsFirst(std::set<TensorRef> tensors) {
  channels_first_ = std::move(tensors);
  for (const TensorRef& t : channels_first_) {
    Node& node = nodes_[t.node];
    for (auto* shapes : {&node.shapes, &node.other_shapes}) {
      if (t.port >= static_cast<int>(shapes->size())) continue;
      if (std::optional<Shape>& s = (*shapes)[t.port]; s && s->size() == 4) {
        s = Shape{(*s)[0], (*s)[2], (*s)[3], (*s)[1]};
      }
    }
  }
}

void GraphIndex::Alias(int node, TensorRef original) {
  nodes_[node].forward = {original};
  nodes_[original.node].aliases.push_back(node);
  FindConsumers();
}

int GraphIndex::ShapeInput(int i) const {
  const std::string& op = node(i).op();
  if (op == "Conv2DBackpropInput") return 0;
  return OneOf(op, {"Reshape", "ResizeBilinear", "ResizeNearestNeighbor"}) ? 1
                                                                          : -1;
}

void GraphIndex::IgnoreShapeInputs(const std::set<int>& nodes) {
  ignored_shapes_ = nodes;
  FindConsumers();
}

}  // namespace ios::tf
