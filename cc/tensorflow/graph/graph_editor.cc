#include "cc/tensorflow/graph/graph_editor.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// Returns whether the node may be removed if it has no readers.
bool IsRemovable(const NodeDef& node) {
  const tensorflow::OpDef* op = nullptr;
  return tensorflow::OpRegistry::Global()->LookUpOpDef(node.op(), &op).ok() &&
         !op->is_stateful() && node.op() != "_Arg" && node.op() != "_Retval" &&
         node.op().rfind("Placeholder", 0) != 0;
}

}  // namespace

std::string GraphEditor::UniqueName(const std::string& wish) {
  std::string name = wish;
  for (int k = 1; view_.Find(name) >= 0 || new_names_.count(name) > 0; ++k) {
    name = absl::StrCat(wish, "_", k);
  }
  new_names_.insert(name);
  return name;
}

NodeDef* GraphEditor::AddNode(const std::string& name, const std::string& op,
                              const std::string& device) {
  NodeDef* node = graph_.add_node();
  node->set_name(name);
  node->set_op(op);
  node->set_device(device);
  return node;
}

std::string GraphEditor::AddConst(const std::string& name,
                                  const tensorflow::Tensor& value,
                                  const std::string& device) {
  NodeDef* node = AddNode(name, "Const", device);
  tensorflow::AddNodeAttr("dtype", value.dtype(), node);
  tensorflow::TensorProto proto;
  value.AsProtoTensorContent(&proto);
  tensorflow::AddNodeAttr("value", proto, node);
  return node->name();
}

NodeDef* GraphEditor::AddTranspose(const std::string& name,
                                   const std::string& input,
                                   bool to_channels_first,
                                   tensorflow::DataType dtype,
                                   const std::string& device) {
  tensorflow::Tensor order(tensorflow::DT_INT32, {4});
  const std::array<int, 4> values = to_channels_first
                                        ? std::array<int, 4>{0, 3, 1, 2}
                                        : std::array<int, 4>{0, 2, 3, 1};
  std::copy(values.begin(), values.end(), order.flat<int>().data());
  const std::string order_name = AddConst(name + "/order", order, device);
  NodeDef* node = AddNode(name, "Transpose", device);
  node->add_input(input);
  node->add_input(order_name);
  tensorflow::AddNodeAttr("T", dtype, node);
  tensorflow::AddNodeAttr("Tperm", tensorflow::DT_INT32, node);
  return node;
}

std::string GraphEditor::InLayout(const std::string& name,
                                  const std::string& input, Layout from,
                                  Layout to, tensorflow::DataType dtype,
                                  const std::string& device) {
  if (from == to) return input;
  if (from == Layout::kChannelsFirst) {
    const std::string last =
        AddTranspose(to == Layout::kChannelsLast ? name : name + "/nhwc", input,
                     /*to_channels_first=*/false, dtype, device)
            ->name();
    return InLayout(name, last, Layout::kChannelsLast, to, dtype, device);
  }
  if (to == Layout::kChannelsFirst) {
    return AddTranspose(name,
                        InLayout(name + "/nhwc", input, from,
                                 Layout::kChannelsLast, dtype, device),
                        /*to_channels_first=*/true, dtype, device)
        ->name();
  }
  NodeDef* node =
      AddNode(name, to == Layout::kSequence ? "Squeeze" : "ExpandDims", device);
  node->add_input(input);
  tensorflow::AddNodeAttr("T", dtype, node);
  if (to == Layout::kSequence) {
    tensorflow::AddNodeAttr("squeeze_dims", std::vector<int64_t>{1}, node);
  } else {
    node->add_input(AddConst(name + "/axis", tensorflow::Tensor(1), device));
    tensorflow::AddNodeAttr("Tdim", tensorflow::DT_INT32, node);
  }
  return node->name();
}

void GraphEditor::Replace(TensorRef tensor, const std::string& replacement) {
  tensors_[tensor] = replacement;
}

void GraphEditor::ReplaceControl(int node, const std::string& replacement) {
  controls_[node] = replacement;
}

std::string GraphEditor::Input(TensorRef tensor) const {
  const auto it = tensors_.find(tensor);
  return it != tensors_.end() ? it->second : view_.Name(tensor);
}

std::string GraphEditor::ControlInput(int node) const {
  // If `node` only passes a tensor on, the control input comes from the node
  // that computes the tensor instead.
  const int source =
      view_.passthrough(node) ? view_.Resolve({node, 0}).node : node;
  const auto it = controls_.find(source);
  return absl::StrCat(
      "^", it != controls_.end() ? it->second : view_.node(node).name());
}

std::set<std::string> GraphEditor::ControlInputs(
    const std::vector<int>& nodes) const {
  const std::set<int> own(nodes.begin(), nodes.end());
  std::set<std::string> inputs;
  for (int i : nodes) {
    for (int c : view_.WaitsFor(i)) {
      if (own.count(c) == 0) inputs.insert(ControlInput(c));
    }
  }
  return inputs;
}

void GraphEditor::Finish() {
  for (int i = 0; i < view_.size(); ++i) {
    NodeDef* node = graph_.mutable_node(i);
    const auto own = tensors_.find({i, 0});
    if (own != tensors_.end() && view_.preserved(i)) {
      NodeDef identity;
      identity.set_name(node->name());
      identity.set_op("Identity");
      identity.set_device(node->device());
      identity.add_input(own->second);
      tensorflow::AddNodeAttr(
          "T", OutputType(view_.node(i)).value_or(tensorflow::DT_INVALID),
          &identity);
      *node = std::move(identity);
      continue;
    }
    std::vector<std::string> inputs;
    std::set<std::string> waits;
    size_t data = 0, control = 0;
    for (const std::string& input : node->input()) {
      if (input[0] != '^') {
        const auto it = tensors_.find(view_.Resolve(view_.inputs(i)[data++]));
        inputs.push_back(it != tensors_.end() ? it->second : input);
        continue;
      }
      const int c = view_.controls(i)[control++];
      // Control inputs from nodes without an effect are left out, because they
      // would only keep these nodes in the graph. Frozen graphs have them for
      // nodes that once read variables.
      if (!view_.has_effect(c)) continue;
      waits.insert(ControlInput(c));
    }
    node->clear_input();
    for (std::string& input : inputs) node->add_input(std::move(input));
    for (const std::string& input : waits) node->add_input(input);
  }
  RemoveOrphans();
}

void GraphEditor::RemoveOrphans() {
  std::unordered_map<std::string, int> readers;
  const auto source = [](const std::string& input) {
    return std::string(tensorflow::ParseTensorName(input).node());
  };
  for (const NodeDef& node : graph_.node()) {
    for (const std::string& input : node.input()) ++readers[source(input)];
  }
  std::unordered_map<std::string, int> numbers;
  std::vector<int> open;
  for (int i = 0; i < graph_.node_size(); ++i) {
    const std::string& name = graph_.node(i).name();
    numbers[name] = i;
    if (readers[name] == 0) open.push_back(i);
  }
  std::unordered_set<int> removed;
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if ((i < view_.size() && view_.preserved(i)) ||
        !IsRemovable(graph_.node(i)) || !removed.insert(i).second) {
      continue;
    }
    for (const std::string& input : graph_.node(i).input()) {
      const std::string name = source(input);
      if (--readers[name] == 0) open.push_back(numbers.at(name));
    }
  }
  tensorflow::GraphDef kept;
  for (int i = 0; i < graph_.node_size(); ++i) {
    if (removed.count(i) == 0) {
      kept.add_node()->Swap(graph_.mutable_node(i));
    }
  }
  graph_.mutable_node()->Swap(kept.mutable_node());
}

}  // namespace ios::tf
