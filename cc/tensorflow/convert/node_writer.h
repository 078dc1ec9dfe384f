// Adds nodes that all have the same device, data type, places in schedules (see
// StagePlace) and precision.
#ifndef IOS_TF_CC_TENSORFLOW_CONVERT_NODE_WRITER_H_
#define IOS_TF_CC_TENSORFLOW_CONVERT_NODE_WRITER_H_

#include <string>
#include <utility>
#include <vector>

#include "cc/core/ir/data_type.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/graph_editor.h"
#include "cc/tensorflow/names.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"

namespace ios::tf {

class NodeWriter {
 public:
  // The nodes have the type `dtype`. They get the annotation `places`, which
  // must outlive the writer, and the type that the engine computes in.
  NodeWriter(GraphEditor* editor, std::string device, DataType dtype,
             DataType computed, const std::vector<StagePlace>& places)
      : editor_(*editor),
        device_(std::move(device)),
        dtype_(dtype),
        computed_(computed),
        places_(places) {}

  DataType dtype() const { return dtype_; }

  tensorflow::NodeDef* Node(const std::string& name, const std::string& op,
                            const std::vector<std::string>& inputs) {
    tensorflow::NodeDef* node = Add(name, op, inputs);
    Annotate(places_, node);
    AnnotatePrecision(computed_, dtype_, node);
    return node;
  }

  // Adds a node that computes a weight from variables.
  tensorflow::NodeDef* WeightNode(const std::string& name,
                                  const std::string& op,
                                  const std::vector<std::string>& inputs,
                                  const tensorflow::TensorShape& shape) {
    tensorflow::NodeDef* node = Add(name, op, inputs);
    shape.AsProto((*node->mutable_attr())[kShapeOfWeight].mutable_shape());
    return node;
  }

  std::string Const(const std::string& name, const tensorflow::Tensor& value) {
    return editor_.AddConst(name, value, device_);
  }

  // Returns `tensor` in layout `to`: `tensor` itself, or the output of a new
  // node.
  std::string InLayout(const std::string& name, const std::string& tensor,
                       Layout from, Layout to) {
    return editor_.InLayout(name, tensor, from, to, ToTensorFlow(dtype_),
                            device_);
  }

 private:
  tensorflow::NodeDef* Add(const std::string& name, const std::string& op,
                           const std::vector<std::string>& inputs) {
    tensorflow::NodeDef* node = editor_.AddNode(name, op, device_);
    for (const std::string& input : inputs) node->add_input(input);
    tensorflow::AddNodeAttr("T", ToTensorFlow(dtype_), node);
    return node;
  }

  GraphEditor& editor_;
  const std::string device_;
  const DataType dtype_, computed_;
  const std::vector<StagePlace>& places_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_NODE_WRITER_H_
