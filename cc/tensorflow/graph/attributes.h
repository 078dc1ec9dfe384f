// Attributes of TensorFlow's nodes.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_ATTRIBUTES_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_ATTRIBUTES_H_

#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {

// Returns the node's attribute `name`, or `otherwise` if the node has no such
// attribute of type T.
template <typename T>
T Attr(const tensorflow::NodeDef& node, const char* name, T otherwise) {
  T value;
  return tensorflow::TryGetNodeAttr(node, name, &value) ? value : otherwise;
}

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_ATTRIBUTES_H_
