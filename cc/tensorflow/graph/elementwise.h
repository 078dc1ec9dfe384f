// TensorFlow's elementwise operations that the engine computes. The search for
// layouts, which these operations keep, and the import handlers share this
// list.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_

#include <string>
#include <unordered_map>

#include "cc/core/ir/block.h"

namespace ios::tf {

// Operations of one tensor. LeakyRelu's slope is an attribute of its node.
const std::unordered_map<std::string, Activation>& UnaryOperations();

// Operations of two tensors, which may broadcast.
const std::unordered_map<std::string, BinaryFunction>& BinaryOperations();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_
