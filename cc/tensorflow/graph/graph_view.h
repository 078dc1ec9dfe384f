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

// Identifies a tensor: output `port` of the node with index `node`.
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
  // Returns the number of the node `name`, or -1 if the graph does not have it.
  int Find(const std::string& name) const;
  // Returns "name" or "name:port", as in NodeDef::input.
  std::string Name(TensorRef tensor) const;
  // inputs() returns the data inputs of node `i` as the graph has them, and
  // controls() its control inputs.
  const std::vector<TensorRef>& inputs(int i) const { return nodes_[i].inputs; }
  const std::vector<int>& controls(int i) const { return nodes_[i].controls; }
  // Input() returns data input k of node `i`; if nodes only pass a tensor on,
  // it returns the tensor that they read. Resolve() does this for any tensor.
  TensorRef Input(int i, int k) const { return Resolve(nodes_[i].inputs[k]); }
  TensorRef Resolve(TensorRef tensor) const;
  // Returns all nodes in a topological order. The back edges of loops are
  // ignored.
  const std::vector<int>& order() const { return order_; }

  // Returns whether the node must keep its name, because it may be read from
  // outside of the graph: it is fed, fetched, listed as a node to keep, or has
  // no consumers.
  bool preserved(int i) const { return nodes_[i].preserved; }
  // Returns whether the caller feeds the node, that is, provides its outputs.
  bool fed(int i) const { return nodes_[i].fed; }
  // Returns whether the node only passes tensors on. Its consumers count as
  // consumers of its inputs.
  bool passthrough(int i) const { return !nodes_[i].forward.empty(); }
  // Returns whether the node computes a constant, or is a NoOp without control
  // inputs.
  bool constant(int i) const { return nodes_[i].constant; }
  // Returns whether the node reads a weight from a variable or computes it from
  // variables; see IsWeight().
  bool variable(int i) const;
  // Returns whether the node is in a branch of a conditional or in a loop, so
  // that it may not run at all.
  bool conditional(int i) const { return nodes_[i].depth > 0; }

  // Returns whether the node must run even if its outputs are not read, because
  // it, or a node that it waits for, may fail or change state. Waiting for a
  // function's arguments does not count, because TensorFlow makes all nodes of
  // a function wait for them.
  bool has_effect(int i) const { return nodes_[i].effect; }
  // Returns whether the node has a control input from a node with an effect.
  bool waits(int i) const;
  // Returns the nodes with an effect (see has_effect()) that are control inputs
  // of the node, or of the nodes that compute its weights and shapes. If the
  // node becomes an operator, it contains its weights and shapes, so it must
  // wait for the same nodes as they do.
  std::set<int> WaitsFor(int i) const;

  // Returns whether a node reads the outputs of this node. Readers that were
  // given to IgnoreShapeInputs() do not count.
  bool live(int i) const { return nodes_[i].live; }
  // Returns the live nodes that read the tensor, directly or through nodes that
  // only pass it on.
  const std::vector<int>& Consumers(TensorRef tensor) const;
  // Returns the only node that reads the tensor. Returns -1 if there is no
  // reader or several, or if the tensor's node is preserved.
  int OnlyConsumer(TensorRef tensor) const;
  // Makes `node` an alias of the tensor `original`, which equals output 0 of
  // `node`: it then counts as a node that only passes `original` on.
  void Alias(int node, TensorRef original);
  // Returns the nodes that Alias() made aliases of an output of node
  // `original`.
  const std::vector<int>& aliases(int original) const {
    return nodes_[original].aliases;
  }
  // Returns the data input that determines the shape of the node's output, or
  // -1.
  int ShapeInput(int i) const;
  // Makes these nodes no longer count as consumers of their ShapeInput().
  void IgnoreShapeInputs(const std::set<int>& nodes);

  // Returns the value of a constant tensor, evaluated by TensorFlow, or null
  // for other tensors.
  const tensorflow::Tensor* Constant(TensorRef tensor);

 private:
  struct Node {
    const tensorflow::NodeDef* def = nullptr;
    std::vector<TensorRef> inputs;
    std::vector<int> controls, aliases;
    std::vector<TensorRef> forward;  // by port; empty if the node computes
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
