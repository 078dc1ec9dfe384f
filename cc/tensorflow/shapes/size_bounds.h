// Finds bounds: sizes at which a node starts to do something else. The slice
// x[:, :16000] has one at 16,000 columns. A property that all samples of sizes
// have holds for all sizes only if there are samples on both sides of each
// bound.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_SIZE_BOUNDS_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_SIZE_BOUNDS_H_

#include <functional>
#include <map>
#include <tuple>

#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/shapes/output_properties.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// Identifies a bound by its node and its number within the node. If `repeats`,
// the node changes at every whole number of a quotient, not at one size only.
struct BoundKey {
  int node = -1;
  int index = 0;
  bool repeats = false;
  bool operator<(const BoundKey& o) const {
    return std::tie(node, index, repeats) <
           std::tie(o.node, o.index, o.repeats);
  }
};

// The distance of sizes from each bound: negative on one side, positive on the
// other. For a bound that repeats, the value is the quotient itself.
using BoundDistances = std::map<BoundKey, double>;

// Returns the value of a short tensor that depends on known shapes alone, or
// null.
using ValueOf = std::function<const tensorflow::Tensor*(TensorRef)>;

// Returns the distance of `outputs`, the shapes of one sample, from each bound
// of the nodes. `graph` is as for CompleteShapes().
BoundDistances ReadBounds(const GraphView& view,
                          const tensorflow::GraphDef& graph,
                          const OutputProperties& outputs,
                          const ValueOf& value_of);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SIZE_BOUNDS_H_
