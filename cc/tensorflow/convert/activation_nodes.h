// Writes activations as TensorFlow's operations.
#ifndef IOS_TF_CC_TENSORFLOW_CONVERT_ACTIVATION_NODES_H_
#define IOS_TF_CC_TENSORFLOW_CONVERT_ACTIVATION_NODES_H_

#include <string>

#include "cc/core/ir/block.h"
#include "cc/tensorflow/convert/node_writer.h"

namespace ios::tf {

// Adds nodes that apply an activation to the tensor `x`. Their names begin with
// `name`. Returns the name of the resulting tensor.
std::string WriteActivation(const std::string& name,
                            const Activation& activation, const std::string& x,
                            NodeWriter* writer);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_ACTIVATION_NODES_H_
