#include "cc/tensorflow/graph/inline_calls.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/graph/tensor_id.h"
#include "tensorflow/core/grappler/utils/functions.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::grappler::GrapplerFunctionItem;
using ::tensorflow::grappler::GrapplerItem;

bool IsCompiledCall(const NodeDef& node) {
  bool compiled = false;
  return (node.op() == "PartitionedCall" ||
          node.op() == "StatefulPartitionedCall") &&
         tensorflow::TryGetNodeAttr(node, "_XlaMustCompile", &compiled) &&
         compiled;
}

bool OnlyConvolves(const GrapplerFunctionItem& function) {
  static const auto* const kKnown = new std::set<std::string>{
      "_Arg", "_Retval", "Identity", "NoOp", "Const", "Conv2D"};
  for (const NodeDef& node : function.graph.node()) {
    if (kKnown->count(node.op()) == 0) return false;
  }
  return function.output_size() == 1;
}

void Inline(const GrapplerFunctionItem& function, tensorflow::DataType dtype,
            NodeDef* call, std::vector<NodeDef>* nodes) {
  std::vector<std::string> arguments, waits;
  for (const std::string& input : call->input()) {
    (input[0] == '^' ? waits : arguments).push_back(input);
  }
  // Maps each argument of the function to the call's input for that argument.
  std::map<std::string, std::string> argument_of;
  for (const NodeDef& node : function.graph.node()) {
    int index = 0;
    if (node.op() == "_Arg" &&
        tensorflow::TryGetNodeAttr(node, "index", &index) &&
        index < static_cast<int>(arguments.size())) {
      argument_of[node.name()] = arguments[index];
    }
  }
  const auto rename = [&](const std::string& input) -> std::string {
    const tensorflow::TensorId id = tensorflow::ParseTensorName(input);
    const auto argument = argument_of.find(std::string(id.node()));
    if (id.index() < 0) {
      if (argument == argument_of.end()) {
        return absl::StrCat("^", call->name(), "/", id.node());
      }
      return absl::StrCat("^",
                          tensorflow::ParseTensorName(argument->second).node());
    }
    if (argument != argument_of.end()) return argument->second;
    return absl::StrCat(call->name(), "/", input);
  };
  std::string result;
  for (NodeDef node : function.graph.node()) {
    if (node.op() == "_Arg") continue;
    if (node.op() == "_Retval") {
      result = rename(node.input(0));
      continue;
    }
    node.set_name(absl::StrCat(call->name(), "/", node.name()));
    node.set_device(call->device());
    for (std::string& input : *node.mutable_input()) input = rename(input);
    for (const std::string& wait : waits) node.add_input(wait);
    nodes->push_back(std::move(node));
  }
  NodeDef identity;
  identity.set_name(call->name());
  identity.set_op("Identity");
  identity.set_device(call->device());
  identity.add_input(result);
  tensorflow::AddNodeAttr("T", dtype, &identity);
  *call = std::move(identity);
}

}  // namespace

absl::StatusOr<int> InlineConvolutionCalls(GrapplerItem* item) {
  const tensorflow::FunctionLibraryDefinition library(
      tensorflow::OpRegistry::Global(), item->graph.library());
  std::vector<NodeDef> nodes;
  int inlined = 0;
  for (NodeDef& node : *item->graph.mutable_node()) {
    tensorflow::NameAttrList name;
    std::vector<tensorflow::DataType> types;
    if (!IsCompiledCall(node) ||
        !tensorflow::TryGetNodeAttr(node, "Tout", &types) ||
        types.size() != 1 || !ToDataType(types[0]) ||
        !tensorflow::GetNodeAttr(node, "f", &name).ok()) {
      continue;
    }
    const tensorflow::FunctionDef* definition = library.Find(name.name());
    if (!definition) continue;
    GrapplerFunctionItem function;
    TF_RETURN_IF_ERROR(tensorflow::grappler::MakeGrapplerFunctionItem(
        *definition, library, item->graph.versions().producer(), &function));
    if (!OnlyConvolves(function)) continue;
    Inline(function, types[0], &node, &nodes);
    ++inlined;
  }
  for (NodeDef& node : nodes) *item->graph.add_node() = std::move(node);
  return inlined;
}

}  // namespace ios::tf
