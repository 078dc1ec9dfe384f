// OutputProperties: the types and shapes that Grappler, TensorFlow's graph
// optimizer, infers for one shape sample.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_OUTPUT_PROPERTIES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_OUTPUT_PROPERTIES_H_

#include <vector>

#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace ios::tf {

// Indexed by node and output port.
using OutputProperties =
    std::vector<std::vector<tensorflow::OpInfo::TensorProperties>>;

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_OUTPUT_PROPERTIES_H_
