// OutputProperties: the types and shapes that Grappler infers for one sample.
#ifndef IOS_TF_CC_TENSORFLOW_SHAPES_OUTPUT_PROPERTIES_H_
#define IOS_TF_CC_TENSORFLOW_SHAPES_OUTPUT_PROPERTIES_H_

#include <vector>

#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"

namespace ios::tf {

// By node and port.
using OutputProperties =
    std::vector<std::vector<tensorflow::OpInfo::TensorProperties>>;

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_SHAPES_OUTPUT_PROPERTIES_H_
