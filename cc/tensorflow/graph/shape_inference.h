// Shapes that TensorFlow's graph optimizers leave unknown although the graph
// computes them from known ones: of what is reshaped or resized to
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

// Of all nodes their outputs' types and shapes.
using OutputProperties =
    std::vector<std::vector<tensorflow::OpInfo::TensorProperties>>;

// A function of its inputs alone, that TensorFlow can evaluate by itself.
bool IsEvaluable(const tensorflow::NodeDef& node);

// Sizes for what nobody can infer, such as a crop that depends on values: those
// of an example, and others, different for each tensor, by which to tell what
// holds for all.
struct FreshSizes {
  bool example = true;
  int64_t batch = 1;
  ImageSize sizes = {1, 1};
  int64_t step = 0;  // by which those of one tensor differ from the last one's
  // In place of a leading dimension of 0, how many images there are of all but
  // the first of one: of no images nothing can be measured. 0: none.
  int64_t no_images = 0;
  // False: what nobody can infer is not known.
  bool made_up = true;

  // In place of an unknown leading dimension, which Grappler numbers from -2
  // downwards: equal ones are equal.
  int64_t Batch(int64_t unknown) const;
};

// Completes `outputs` where the graph's own shape arithmetic tells: shapes, and
// the values of tensors that say how much is padded or cropped. `order` has
// producers first; `inputs` are the data inputs of all nodes. Images and
// sequences of which no more than the channels is known get `fresh` sizes;
// returns the number of these tensors. `bounds` receives the distances of the
// shapes from the bounds of all nodes (size_bounds.h).
int CompleteShapes(const tensorflow::GraphDef& graph,
                   const std::vector<int>& order,
                   const std::vector<std::vector<TensorRef>>& inputs,
                   const FreshSizes& fresh, OutputProperties* outputs,
                   BoundDistances* bounds);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_INFERENCE_H_
