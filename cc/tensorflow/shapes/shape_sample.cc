#include "cc/tensorflow/shapes/shape_sample.h"

#include <utility>

namespace ios::tf {
namespace {

using ::tensorflow::GraphDef;
using ::tensorflow::NodeDef;

void SetInputShape(tensorflow::TensorShapeProto shape, NodeDef* node) {
  if (node->op() == "_Arg") {
    *(*node->mutable_attr())["_output_shapes"].mutable_list()->mutable_shape(
        0) = std::move(shape);
  } else {
    *(*node->mutable_attr())["shape"].mutable_shape() = std::move(shape);
  }
}

// If only one dimension of an image is unknown, returns which size replaces it:
// 0 for the height, 1 for the width. For a sequence, an image of height 1, this
// is the width.
int OnlySize(int dimension, int rank) { return dimension + 2 >= rank; }

}  // namespace

tensorflow::TensorShapeProto WithSample(tensorflow::TensorShapeProto shape,
                                        const ShapeSample& sample,
                                        bool first_input) {
  if (shape.dim(0).size() < 0) {
    shape.mutable_dim(0)->set_size(first_input || sample.next_batch == 0
                                       ? sample.batch
                                       : sample.next_batch);
  }
  int unknown = 0;
  for (int d = 1; d < shape.dim_size(); ++d) unknown += shape.dim(d).size() < 0;
  // With more than two unknown dimensions, the input is not an image or a
  // sequence.
  if (unknown > 2 || shape.dim_size() < 3) return shape;
  const auto& sizes = first_input || sample.next_sizes[0] == 0
                          ? sample.sizes
                          : sample.next_sizes;
  int next = 0;
  for (int d = 1; d < shape.dim_size(); ++d) {
    if (shape.dim(d).size() < 0) {
      const int size = unknown == 1 ? OnlySize(d, shape.dim_size()) : next++;
      shape.mutable_dim(d)->set_size(sizes[size]);
    }
  }
  return shape;
}

const tensorflow::TensorShapeProto* InputShape(const NodeDef& node) {
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
  return shape && !shape->unknown_rank() && shape->dim_size() > 0 ? shape
                                                                  : nullptr;
}

void SetInputSizes(const GraphDef& graph, const ShapeSample& sample,
                   GraphDef* sized) {
  bool first = true;
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto* shape = InputShape(graph.node(i));
    if (!shape) continue;
    SetInputShape(WithSample(*shape, sample, first), sized->mutable_node(i));
    first = false;
  }
}

}  // namespace ios::tf
