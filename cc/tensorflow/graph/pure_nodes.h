// Finds out which nodes are pure functions of their inputs.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_PURE_NODES_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_PURE_NODES_H_

#include "tensorflow/core/framework/node_def.pb.h"

namespace ios::tf {

// Returns whether the node is a pure function, according to the registration of
// its operation.
bool IsPure(const tensorflow::NodeDef& node);

// Returns whether the node's outputs depend on its inputs only, and TensorFlow
// can evaluate the node outside of the graph.
bool IsEvaluable(const tensorflow::NodeDef& node);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_PURE_NODES_H_
