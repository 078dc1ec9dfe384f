// GraphEditor: replaces tensors of a GraphDef by those of new nodes and removes
// what nobody reads any more. Rewrite and lower change graphs with it.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_EDITOR_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_EDITOR_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

class GraphEditor {
 public:
  // `graph` is a copy of the graph that `index` describes.
  GraphEditor(const GraphIndex& index, tensorflow::GraphDef* graph)
      : index_(index), graph_(*graph) {}

  // A name, starting with `wish`, that no node has; a prefix for new nodes.
  std::string UniqueName(const std::string& wish);
  // A new node; its name comes from UniqueName().
  tensorflow::NodeDef* AddNode(const std::string& name, const std::string& op,
                               const std::string& device);
  std::string AddConst(const std::string& name, const tensorflow::Tensor& value,
                       const std::string& device);

  // `input`, which has `dtype`, with its dimensions in another order: itself,
  // or the output of a new node `name`.
  std::string InLayout(const std::string& name, const std::string& input,
                       Layout from, Layout to, tensorflow::DataType dtype,
                       const std::string& device);

  // Readers of `tensor` will read `replacement` ("name" or "name:port"). The
  // node keeps its name, as an Identity, if somebody outside may ask for it.
  void Replace(TensorRef tensor, const std::string& replacement);
  // Nodes that waited for `node` will wait for node `replacement`.
  void ReplaceControl(int node, const std::string& replacement);
  // The NodeDef::input that reads `tensor`; good after all calls of Replace().
  std::string Input(TensorRef tensor) const;
  // Control inputs ("^name") that do what those of `nodes` did.
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

  const GraphIndex& index_;
  tensorflow::GraphDef& graph_;
  std::set<std::string> new_names_;
  std::map<TensorRef, std::string> tensors_;
  std::map<int, std::string> controls_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_EDITOR_H_
