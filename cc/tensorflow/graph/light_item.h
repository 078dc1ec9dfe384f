// WithoutWeights: a graph as shapes are inferred of it.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_LIGHT_ITEM_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_LIGHT_ITEM_H_

#include <set>
#include <string>

#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// The item without weights: the values of large constants, which no shape
// depends on, as inference copies the graph, and variables, whose shapes it
// cannot know. And without the numbers that `unknown` nodes compute.
tensorflow::grappler::GrapplerItem WithoutWeights(
    const tensorflow::grappler::GrapplerItem& item,
    const std::set<std::string>& unknown);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_LIGHT_ITEM_H_
