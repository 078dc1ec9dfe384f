// Lists TensorFlow's elementwise operations that the engine computes. The
// search for layouts (layout_map.h) uses the lists, because these operations
// keep the layout. The import handlers use them, too.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_

#include <string>
#include <unordered_map>

#include "cc/core/ir/block.h"

namespace ios::tf {

// Operations with one input. (The slope of LeakyRelu is read from the node.)
const std::unordered_map<std::string, Activation>& UnaryOperations();

// Returns the operations that have two inputs, which may broadcast, keyed by
// the operation's name in TensorFlow.
const std::unordered_map<std::string, BinaryFunction>& BinaryOperations();

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_ELEMENTWISE_H_
