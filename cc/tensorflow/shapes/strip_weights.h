// StripWeights: makes a copy of a graph for shape inference.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_STRIP_WEIGHTS_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_STRIP_WEIGHTS_H_

#include <set>
#include <string>

#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// Returns the item with placeholders instead of weights. Large constants are
// replaced because inference copies the graph, and no shape depends on their
// values. Variables are replaced because inference cannot find out their
// shapes. The nodes in `unknown` become placeholders, too, so that inference
// does not use the numbers that they compute.
tensorflow::grappler::GrapplerItem StripWeights(
    const tensorflow::grappler::GrapplerItem& item,
    const std::set<std::string>& unknown);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_STRIP_WEIGHTS_H_
