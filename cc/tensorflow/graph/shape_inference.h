// Infers shapes that TensorFlow's graph optimizers leave unknown although the
// graph computes them from known shapes. An example is a Reshape or resize to
// Pack(Shape(x)[0], 2 * ...).
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_INFERENCE_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_INFERENCE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "cc/tensorflow/graph/probes.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace ios::tf {

struct TensorRef;

// The types and shapes of outputs, by node and port.
using OutputProperties =
    std::vector<std::vector<tensorflow::OpInfo::TensorProperties>>;

// Returns whether the node is a function of its inputs alone that TensorFlow
// can evaluate outside the graph.
bool IsEvaluable(const tensorflow::NodeDef& node);

// Placeholder sizes for dimensions that depend on values, such as those of a
// crop. Probes other than the example can give each tensor different sizes, so
// that accidental equality is not mistaken for a rule.
struct PlaceholderSizes {
  bool example = true;
  int64_t batch = 1;
  ImageSize sizes = {1, 1};
  int64_t step = 0;  // between the sizes of one tensor and the next
  // The number of images that replaces a leading dimension of 0, because
  // nothing can be measured without images. An example is the batch of `x[1:]`
  // if `x` has one image. 0: do not replace.
  int64_t no_images = 0;
  // If false, dimensions that depend on values stay unknown.
  bool made_up = true;

  // Returns the size for an unknown leading dimension. Grappler numbers these
  // from -2 downwards; equal numbers mean equal dimensions.
  int64_t Batch(int64_t unknown) const;
};

// Completes `outputs` from the graph's own shape arithmetic: shapes, and the
// values of tensors that hold amounts of padding or cropping. `order` has
// producers first. `inputs` are the data inputs of all nodes. Images and
// sequences of which only the channels are known get `fresh` sizes; returns the
// number of these tensors. `bounds` receives the distances of the shapes from
// the bounds of all nodes (size_bounds.h).
int CompleteShapes(const tensorflow::GraphDef& graph,
                   const std::vector<int>& order,
                   const std::vector<std::vector<TensorRef>>& inputs,
                   const PlaceholderSizes& fresh, OutputProperties* outputs,
                   BoundDistances* bounds);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_INFERENCE_H_
