// Finds bounds: sizes of tensors at which the behavior of a node changes. For
// example, the slice x[:, :16000] has a bound at 16,000 columns: it returns all
// columns of smaller tensors, but cuts larger tensors. A property that was
// found in all shape samples is true for all sizes only if some samples are on
// each side of every bound.
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
// the node does not change at one size only, but whenever a quotient of sizes
// reaches a whole number.
struct BoundKey {
  int node = -1;
  int index = 0;
  bool repeats = false;
  bool operator<(const BoundKey& o) const {
    return std::tie(node, index, repeats) <
           std::tie(o.node, o.index, o.repeats);
  }
};

// Maps each bound to the distance of a sample's sizes from it. The distance is
// negative on one side of the bound and positive on the other. For a bound that
// repeats, the map contains the quotient instead of a distance.
using BoundDistances = std::map<BoundKey, double>;

// A function that returns the value of a short tensor if it depends on known
// shapes only, and null for other tensors.
using ValueOf = std::function<const tensorflow::Tensor*(TensorRef)>;

// Returns the distances of one sample, whose shapes are `outputs`, from the
// bounds of all nodes. `graph` is as for CompleteShapes().
BoundDistances ReadBounds(const GraphView& view,
                          const tensorflow::GraphDef& graph,
                          const OutputProperties& outputs,
                          const ValueOf& value_of);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_SIZE_BOUNDS_H_
