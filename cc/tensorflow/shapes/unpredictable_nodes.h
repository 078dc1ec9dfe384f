// Finds nodes whose results for other input sizes cannot be predicted from
// samples.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_UNPREDICTABLE_NODES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_UNPREDICTABLE_NODES_H_

#include <set>
#include <string>

#include "cc/tensorflow/graph/graph_view.h"

namespace ios::tf {

// Adds the names of the unpredictable nodes to `nodes`. Examples are nodes that
// compute the minimum of two sizes, or compare two sizes.
void AddUnpredictableNodes(const GraphView& view, std::set<std::string>* nodes);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_UNPREDICTABLE_NODES_H_
