// Attributes of TensorFlow's nodes.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_ATTRIBUTES_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_ATTRIBUTES_H_

#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {

// The node's attribute, or `otherwise` if it has none of that type.
template <typename T>
T Attr(const tensorflow::NodeDef& node, const char* name, T otherwise) {
  T value;
  return tensorflow::TryGetNodeAttr(node, name, &value) ? value : otherwise;
}

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_ATTRIBUTES_H_
