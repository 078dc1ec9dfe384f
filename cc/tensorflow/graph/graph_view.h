// GraphView: the nodes of a GraphDef with their edges, constants and readers.
// The view skips nodes that only pass a tensor on.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_VIEW_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_VIEW_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/grappler/optimizers/evaluation_utils.h"

namespace ios::tf {

// Output `port` of node number `node`.
struct TensorRef {
  int node = -1;
  int port = 0;
  bool operator==(const TensorRef& o) const {
    return node == o.node && port == o.port;
  }
  bool operator!=(const TensorRef& o) const { return !(*this == o); }
  bool operator<(const TensorRef& o) const {
    return node != o.node ? node < o.node : port < o.port;
  }
};

class GraphView {
 public:
  // The item must outlive the view.
  static absl::StatusOr<std::unique_ptr<GraphView>> Create(
      const tensorflow::grappler::GrapplerItem& item);

  int size() const { return nodes_.size(); }
  const tensorflow::NodeDef& node(int i) const { return *nodes_[i].def; }
  // Returns -1 if the graph has no such node.
  int Find(const std::string& name) const;
  // "name" or "name:port", as in NodeDef::input.
  std::string Name(TensorRef tensor) const;
  // Data inputs as in the graph, and control inputs.
  const std::vector<TensorRef>& inputs(int i) const { return nodes_[i].inputs; }
  const std::vector<int>& controls(int i) const { return nodes_[i].controls; }
  // Data input k, looking through nodes that pass it on.
  TensorRef Input(int i, int k) const { return Resolve(nodes_[i].inputs[k]); }
  TensorRef Resolve(TensorRef tensor) const;
  // All nodes, producers first, ignoring the back edges of loops.
  const std::vector<int>& order() const { return order_; }

  // The node's name must be kept. The node is fed, fetched or listed to be
  // kept, or it has no consumers, so it may be read from outside the graph.
  bool preserved(int i) const { return nodes_[i].preserved; }
  // The caller provides the node's outputs.
  bool fed(int i) const { return nodes_[i].fed; }
  // The node only passes tensors on. The node's consumers count as consumers of
  // its inputs.
  bool passthrough(int i) const { return !nodes_[i].forward.empty(); }
  // The node computes a constant, or is a NoOp that waits for nothing.
  bool constant(int i) const { return nodes_[i].constant; }
  // The node reads a weight from a variable or computes one from variables; see
  // IsWeight().
  bool variable(int i) const;
  // The node is in a branch of a conditional or in a loop, so it may not run.
  bool conditional(int i) const { return nodes_[i].depth > 0; }

  // Returns whether running the node matters even if its outputs are not read:
  // the node, or a node that it waits for, may fail or change state. Arguments
  // do not count, because TensorFlow makes all nodes of a function wait for
  // them.
  bool has_effect(int i) const { return nodes_[i].effect; }
  // Returns whether the node has a control input with an effect.
  bool waits(int i) const;
  // Returns the nodes with an effect that the node waits for. This includes
  // those that its weights and shapes wait for, because weights and shapes
  // become parts of the operator.
  std::set<int> WaitsFor(int i) const;

  // Something consumes the node, apart from the shape inputs of the nodes given
  // to IgnoreShapeInputs().
  bool live(int i) const { return nodes_[i].live; }
  // Live nodes that read the tensor, directly or through nodes that pass it on.
  const std::vector<int>& Consumers(TensorRef tensor) const;
  // Returns the only node that reads the tensor. Returns -1 if others read it
  // or if the tensor's node is preserved.
  int OnlyConsumer(TensorRef tensor) const;
  // Makes `node`, whose output 0 equals `original`, pass `original` on.
  void Alias(int node, TensorRef original);
  // The nodes that Alias() made pass on an output of node `original`.
  const std::vector<int>& aliases(int original) const {
    return nodes_[original].aliases;
  }
  // Returns the data input that determines the shape of the node's output, or
  // -1.
  int ShapeInput(int i) const;
  // These nodes no longer count as consumers of their ShapeInput().
  void IgnoreShapeInputs(const std::set<int>& nodes);

  // Returns the value of a constant tensor, evaluated by TensorFlow, or null
  // for other tensors.
  const tensorflow::Tensor* Constant(TensorRef tensor);

 private:
  struct Node {
    const tensorflow::NodeDef* def = nullptr;
    std::vector<TensorRef> inputs;
    std::vector<int> controls, aliases;
    std::vector<TensorRef> forward;  // by port; empty: computes something
    bool preserved = false, fed = false, constant = false, live = true;
    bool effect = false;
    bool evaluated = false;
    int depth = 0;  // nesting depth of conditionals and loops
    std::vector<tensorflow::Tensor> values;
  };

  GraphView() = default;
  absl::Status ReadEdges(const tensorflow::grappler::GrapplerItem& item);
  absl::Status SortNodes();
  void ClassifyNodes();
  void FindConsumers();
  bool Evaluate(int i);

  std::vector<Node> nodes_;
  std::unordered_map<std::string, int> by_name_;
  std::vector<int> order_;
  std::set<int> ignored_shapes_;
  std::map<TensorRef, std::vector<int>> consumers_;
  std::unique_ptr<tensorflow::grappler::DeviceSimple> cpu_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_VIEW_H_
