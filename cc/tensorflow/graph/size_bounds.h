// Finds bounds: sizes at which a node starts to do something else. The slice
// x[:, :16000] has one at 16,000 columns. A property that all samples of sizes
// have holds for all sizes only if there are samples on both sides of each
// bound.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_SIZE_BOUNDS_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_SIZE_BOUNDS_H_

#include <functional>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/graph/shape_inference.h"

namespace ios::tf {

// Returns the value of a short tensor that depends on known shapes alone, or
// null.
using ValueOf = std::function<const tensorflow::Tensor*(TensorRef)>;

// Returns the distance of `outputs`, the shapes of one probe, from each bound
// of the nodes of `order`.
BoundDistances ReadBounds(const tensorflow::GraphDef& graph,
                          const std::vector<int>& order,
                          const std::vector<std::vector<TensorRef>>& inputs,
                          const OutputProperties& outputs,
                          const ValueOf& value_of);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_SIZE_BOUNDS_H_
