// GraphEditor: replaces tensors of a GraphDef by outputs of new nodes, and
// removes nodes that nothing reads any more.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_EDITOR_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_EDITOR_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/graph/layout.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

class GraphEditor {
 public:
  // `graph` is a copy of the graph that `view` shows.
  GraphEditor(const GraphView& view, tensorflow::GraphDef* graph)
      : view_(view), graph_(*graph) {}

  // Returns a name that starts with `wish`. Neither a node of the graph nor an
  // earlier call of this function uses the name.
  std::string UniqueName(const std::string& wish);
  // Adds a node. `name` comes from UniqueName().
  tensorflow::NodeDef* AddNode(const std::string& name, const std::string& op,
                               const std::string& device);
  std::string AddConst(const std::string& name, const tensorflow::Tensor& value,
                       const std::string& device);

  // Returns the tensor `input` (of type `dtype`, in layout `from`) in layout
  // `to`: `input` itself, or the output of a new node `name`.
  std::string InLayout(const std::string& name, const std::string& input,
                       Layout from, Layout to, tensorflow::DataType dtype,
                       const std::string& device);

  // Makes readers of `tensor` read `replacement` ("name" or "name:port"). If
  // the node of `tensor` is preserved, it becomes an Identity of `replacement`,
  // so that its name still exists.
  void Replace(TensorRef tensor, const std::string& replacement);
  // Makes nodes with a control input from `node` wait for node `replacement`
  // instead.
  void ReplaceControl(int node, const std::string& replacement);
  // Returns the text for NodeDef::input that reads `tensor` or its replacement.
  // Call this after all calls of Replace().
  std::string Input(TensorRef tensor) const;
  // Returns the control inputs ("^name") that a node needs if it replaces
  // `nodes`.
  std::set<std::string> ControlInputs(const std::vector<int>& nodes) const;

  // Applies the replacements, and then removes nodes that are no longer read.
  void Finish();

 private:
  tensorflow::NodeDef* AddTranspose(const std::string& name,
                                    const std::string& input,
                                    bool to_channels_first,
                                    tensorflow::DataType dtype,
                                    const std::string& device);
  std::string ControlInput(int node) const;
  void RemoveOrphans();

  const GraphView& view_;
  tensorflow::GraphDef& graph_;
  std::set<std::string> new_names_;
  std::map<TensorRef, std::string> tensors_;
  std::map<int, std::string> controls_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_EDITOR_H_
