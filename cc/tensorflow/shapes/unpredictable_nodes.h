// Finds nodes whose results for other input sizes do not follow from samples.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_UNPREDICTABLE_NODES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_UNPREDICTABLE_NODES_H_

#include <set>
#include <string>

#include "cc/tensorflow/graph/graph_view.h"

namespace ios::tf {

// Adds the names of these nodes. They bound sizes of the graph's tensors or
// choose between sizes.
void AddUnpredictableNodes(const GraphView& view, std::set<std::string>* nodes);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_UNPREDICTABLE_NODES_H_
