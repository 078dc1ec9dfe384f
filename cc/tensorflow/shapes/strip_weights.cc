#include "cc/tensorflow/shapes/strip_weights.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/names.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/tensor_id.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::grappler::GrapplerItem;

// Returns whether the node is a constant with a single negative number. An
// example is the stride of a slice that reverses a vector.
bool IsNegativeNumber(const NodeDef& node) {
  const auto value = node.attr().find("value");
  if (node.op() != "Const" || value == node.attr().end()) return false;
  const tensorflow::TensorProto& proto = value->second.tensor();
  tensorflow::Tensor tensor;
  // The number of elements is checked first, because a proto of a few bytes may
  // describe a tensor with a billion elements.
  if (!tensorflow::TensorShape::IsValid(proto.tensor_shape()) ||
      tensorflow::TensorShape(proto.tensor_shape()).num_elements() != 1 ||
      !tensor.FromProto(proto)) {
    return false;
  }
  const auto numbers = Integers(&tensor);
  return numbers && numbers->front() < 0;
}

// Makes Grappler evaluate the slice with its kernel instead of its rule for
// slices of shape vectors. That rule assumes that a slice without an end stops
// at the last element. For a slice that runs backwards, as in
// `tf.shape(x)[1:3][::-1]`, this is wrong, and inference fails.
void LeaveSliceToKernel(NodeDef* node) {
  // The mask bit of dimension 30, which no tensor has. The kernel and the shape
  // function ignore this bit, but Grappler's rule is not used if it is set.
  constexpr int64_t kNoDimension = int64_t{1} << 30;
  const auto mask = node->mutable_attr()->find("begin_mask");
  if (mask == node->mutable_attr()->end()) return;
  mask->second.set_i(mask->second.i() | kNoDimension);
}

// Removes this package's attributes, because no shape depends on them. Graphs
// that differ only in their schedules then have equal copies.
void RemoveAnnotations(NodeDef* node) {
  auto& attributes = *node->mutable_attr();
  for (auto it = attributes.begin(); it != attributes.end();) {
    it = absl::StartsWith(it->first, "_ios_") ? attributes.erase(it)
                                              : std::next(it);
  }
}

// Returns whether the constant is large: its value, or the number of elements
// that the value stands for.
bool IsLarge(const tensorflow::TensorProto& value) {
  constexpr int64_t kBytes = 1024, kElements = 256;
  return tensorflow::TensorShape::IsValid(value.tensor_shape()) &&
         (value.ByteSizeLong() >= kBytes ||
          tensorflow::TensorShape(value.tensor_shape()).num_elements() >=
              kElements);
}

bool StandsForVariable(const NodeDef& node) {
  const auto type = node.attr().find(kTypeOfVariable);
  const auto shape = node.attr().find(kShapeOfVariable);
  const auto end = node.attr().end();
  return node.op() == "Placeholder" && type != end && shape != end &&
         tensorflow::DataType_IsValid(type->second.type()) &&
         tensorflow::TensorShape::IsValid(shape->second.shape());
}

}  // namespace

GrapplerItem StripWeights(const GrapplerItem& item,
                          const std::set<std::string>& unknown) {
  tensorflow::GraphDef graph;
  *graph.mutable_library() = item.graph.library();
  *graph.mutable_versions() = item.graph.versions();
  std::set<std::string> negative;
  for (const NodeDef& node : item.graph.node()) {
    if (IsNegativeNumber(node)) negative.insert(node.name());
  }
  for (const NodeDef& node : item.graph.node()) {
    NodeDef* copy = graph.add_node();
    const auto become_placeholder = [&] {
      copy->set_name(node.name());
      copy->set_op("Placeholder");
      copy->set_device(node.device());
    };
    const auto value = node.attr().find("value");
    if (IsWeight(node)) {
      become_placeholder();
      const auto type =
          node.attr().find(node.op() == "ReadVariableOp" ? "dtype" : "T");
      if (type != node.attr().end()) {
        (*copy->mutable_attr())["dtype"] = type->second;
      }
      (*copy->mutable_attr())["shape"] = node.attr().at(kShapeOfWeight);
      continue;
    }
    if (StandsForVariable(node)) {
      // Adds a VarHandleOp, because Grappler can infer the shapes of tensors
      // that are read from it.
      copy->set_name(node.name());
      copy->set_op("VarHandleOp");
      copy->set_device(node.device());
      (*copy->mutable_attr())["dtype"] = node.attr().at(kTypeOfVariable);
      (*copy->mutable_attr())["shape"] = node.attr().at(kShapeOfVariable);
      continue;
    }
    const auto type =
        unknown.count(node.name()) > 0 ? OutputType(node) : std::nullopt;
    if (type) {
      become_placeholder();
      tensorflow::AddNodeAttr("dtype", *type, copy);
      continue;
    }
    if (node.op() != "Const" || value == node.attr().end() ||
        !IsLarge(value->second.tensor())) {
      *copy = node;
      RemoveAnnotations(copy);
      constexpr int kStrides = 3;
      if (node.op() == "StridedSlice" && node.input_size() > kStrides &&
          negative.count(std::string(
              tensorflow::ParseTensorName(node.input(kStrides)).node())) > 0) {
        LeaveSliceToKernel(copy);
      }
      continue;
    }
    become_placeholder();
    for (const std::string& input : node.input()) copy->add_input(input);
    tensorflow::AddNodeAttr("dtype", value->second.tensor().dtype(), copy);
    *(*copy->mutable_attr())["shape"].mutable_shape() =
        value->second.tensor().tensor_shape();
  }
  return item.WithGraph(std::move(graph));
}

}  // namespace ios::tf
