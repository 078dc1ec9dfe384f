// TensorFlow's element-wise operations that the engine computes: the one list
// that layouts, which they keep, and handlers, which import them, ask.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_

#include <string>
#include <unordered_map>

#include "cc/core/ir/block.h"

namespace ios::tf {

// Of one tensor. LeakyRelu's slope is an attribute of its node.
const std::unordered_map<std::string, Activation>& UnaryOperations();

// Of two tensors, which may be broadcast.
const std::unordered_map<std::string, BinaryFunction>& BinaryOperations();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_
