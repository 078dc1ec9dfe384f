// Shapes that TensorFlow's graph optimizers leave unknown although the graph
// computes them from known ones: of what is reshaped or resized to
// Pack(Shape(x)[0], 2 * ...).
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_INFERENCE_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_INFERENCE_H_

#include <vector>

#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace ios::tf {

struct TensorRef;

// Of all nodes their outputs' types and shapes.
using OutputProperties =
    std::vector<std::vector<tensorflow::OpInfo::TensorProperties>>;

// A function of its inputs alone, that TensorFlow can evaluate by itself.
bool IsEvaluable(const tensorflow::NodeDef& node);

// Completes `outputs` where the graph's own shape arithmetic tells: shapes, and
// the values of tensors that say how much is padded or cropped. `order` has
// producers first; `inputs` are the data inputs of all nodes.
void CompleteShapes(const tensorflow::GraphDef& graph,
                    const std::vector<int>& order,
                    const std::vector<std::vector<TensorRef>>& inputs,
                    OutputProperties* outputs);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_SHAPE_INFERENCE_H_
