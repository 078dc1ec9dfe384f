// GraphEditor: replaces tensors of a GraphDef by those of new nodes and removes
// nodes that nothing reads any more.
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

  // Returns an unused node name that starts with `wish`. New nodes may also use
  // it as a prefix.
  std::string UniqueName(const std::string& wish);
  // Adds a node. `name` comes from UniqueName().
  tensorflow::NodeDef* AddNode(const std::string& name, const std::string& op,
                               const std::string& device);
  std::string AddConst(const std::string& name, const tensorflow::Tensor& value,
                       const std::string& device);

  // Returns `input`, of type `dtype`, with its dimensions in the order `to`:
  // `input` itself, or the output of a new node `name`.
  std::string InLayout(const std::string& name, const std::string& input,
                       Layout from, Layout to, tensorflow::DataType dtype,
                       const std::string& device);

  // Makes readers of `tensor` read `replacement` ("name" or "name:port"). A
  // preserved node becomes an Identity and keeps its name.
  void Replace(TensorRef tensor, const std::string& replacement);
  // Makes nodes that wait for `node` wait for node `replacement`.
  void ReplaceControl(int node, const std::string& replacement);
  // Returns the NodeDef::input that reads `tensor`. Call it after all calls of
  // Replace().
  std::string Input(TensorRef tensor) const;
  // Returns control inputs ("^name") equivalent to those of `nodes` together.
  std::set<std::string> ControlInputs(const std::vector<int>& nodes) const;

  // Applies the replacements, then removes nodes that became useless.
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
