#include "cc/tensorflow/graph/probes.h"

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

// Returns which size replaces the only unknown dimension of an image: 0 for the
// height, 1 for the width. A sequence is an image of height 1.
int OnlySize(int dimension, int rank) { return dimension + 2 >= rank; }

// The leading dimension is the batch. If an image has two other unknown
// dimensions, they are its height and width.
tensorflow::TensorShapeProto WithProbe(tensorflow::TensorShapeProto shape,
                                       const Probe& probe, bool first_input) {
  if (shape.dim(0).size() < 0) {
    shape.mutable_dim(0)->set_size(
        first_input || probe.next_batch == 0 ? probe.batch : probe.next_batch);
  }
  int unknown = 0;
  for (int d = 1; d < shape.dim_size(); ++d) unknown += shape.dim(d).size() < 0;
  // More than two unknown dimensions are not the size of an image or sequence.
  if (unknown > 2 || shape.dim_size() < 3) return shape;
  const auto& sizes =
      first_input || probe.next_sizes[0] == 0 ? probe.sizes : probe.next_sizes;
  int next = 0;
  for (int d = 1; d < shape.dim_size(); ++d) {
    if (shape.dim(d).size() < 0) {
      const int size = unknown == 1 ? OnlySize(d, shape.dim_size()) : next++;
      shape.mutable_dim(d)->set_size(sizes[size]);
    }
  }
  return shape;
}

}  // namespace

void AddSizes(const ImageSize& image_size, std::vector<Probe>* probes) {
  const auto [height, width] = image_size;
  // Graphs count pixels in 32 bits, so batch and sizes are not both large. Odd
  // sizes of all magnitudes leave remainders, even after convolutions and pools
  // have made the images smaller. Small sizes, in one dimension at a time, show
  // where a slice takes the whole dimension.
  for (ImageSize sizes : {ImageSize{32 * 331, 32 * 337},
                          {1, 2},
                          {2, 1},
                          {3, 75},
                          {58, 3},
                          {5, 130},
                          {102, 5},
                          {9, 31},
                          {37, 8},
                          {height + 1, width + 5}}) {
    probes->push_back({2, sizes, /*optional=*/true});
  }
}

Probes MakeProbes(const GraphDef& graph, int64_t batch_size,
                  const ImageSize& image_size) {
  const auto [height, width] = image_size;
  int unknown_batches = 0, images = 0;
  bool unknown_sizes = false;
  for (const NodeDef& node : graph.node()) {
    const auto* shape = InputShape(node);
    if (!shape) continue;
    unknown_batches += shape->dim(0).size() < 0;
    bool unknown = false;
    for (int d = 1; d < shape->dim_size(); ++d) {
      unknown = unknown || shape->dim(d).size() < 0;
    }
    images += unknown;
    unknown_sizes = unknown_sizes || unknown;
  }
  const Probe example = {batch_size, image_size};
  std::vector<Probe> probes = {
      example, {3, {height + 96, width + 32}}, {5, {height + 32, width + 160}}};
  if (batch_size != 1 && unknown_batches > 0) {
    probes.push_back({1, example.sizes});
  }
  if (unknown_batches > 0) {
    probes.push_back({10007, example.sizes, /*optional=*/true});
  }
  if (unknown_sizes) AddSizes(image_size, &probes);
  if (images > 1) {
    // The first input is larger than the others, has the other orientation, or
    // broadcasts.
    for (const auto& [sizes, next] :
         {std::pair<ImageSize, ImageSize>{{height + 38, width + 1},
                                          {height, width + 19}},
          {{30, 41}, {41, 30}},
          {{1, 1}, {30, 41}},
          {{30, 41}, {1, 1}}}) {
      probes.push_back(
          {2, sizes, /*optional=*/true, /*next_batch=*/2, /*next_sizes=*/next});
    }
  }
  if (unknown_batches > 1) {
    probes.push_back({7, example.sizes, /*optional=*/true, /*next_batch=*/1});
  }
  return {std::move(probes), unknown_batches > 0 || unknown_sizes,
          unknown_sizes};
}

void UseSizes(const ImageSize& sizes, std::vector<Probe>* probes) {
  const ImageSize example = probes->front().sizes;
  std::vector<Probe> more;
  for (Probe& probe : *probes) {
    if (probe.optional && probe.sizes != example) continue;
    if (!probe.optional) {
      more.push_back(probe);
      more.back().optional = true;
    }
    probe.sizes = sizes;
  }
  // Strides and pools round sizes, and dimensions of 1 broadcast.
  const auto [height, width] = sizes;
  for (const ImageSize& near : {ImageSize{height - 1, width - 1},
                                {height + 1, width + 1},
                                {height - 1, width},
                                {height, width - 1},
                                {height, 1},
                                {1, width},
                                {1, 1}}) {
    if (near[0] > 0 && near[1] > 0) more.push_back({2, near, true});
  }
  probes->insert(probes->end(), more.begin(), more.end());
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

void SetInputSizes(const GraphDef& graph, const Probe& probe, GraphDef* sized) {
  bool first = true;
  for (int i = 0; i < graph.node_size(); ++i) {
    const auto* shape = InputShape(graph.node(i));
    if (!shape) continue;
    SetInputShape(WithProbe(*shape, probe, first), sized->mutable_node(i));
    first = false;
  }
}

}  // namespace ios::tf
