// GraphIndex: looks up the edges, shapes and constants of a GraphDef for the
// importer, and skips nodes that only pass a tensor on.
#ifndef IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_INDEX_H_
#define IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_INDEX_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/core/ir/block.h"
#include "cc/tensorflow/graph/probes.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/grappler/costs/op_performance_data.pb.h"
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

// The order in which a tensor of the graph has the dimensions N, H, W and C.
enum class Layout {
  kChannelsLast,   // [N,H,W,C] or [N,C]
  kChannelsFirst,  // [N,C,H,W]
  kSequence,       // [N,W,C]; the height is 1
};

struct PlaceholderSizes;

class GraphIndex {
 public:
  // `batch_size` replaces unknown leading dimensions. `image_size` replaces the
  // other unknown dimensions of the graph's inputs. Probe 0 has these sizes.
  // The item must outlive the index.
  static absl::StatusOr<std::unique_ptr<GraphIndex>> Create(
      const tensorflow::grappler::GrapplerItem& item, int64_t batch_size,
      const ImageSize& image_size);

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
  // The node is in a branch of a conditional or in a loop, so it may not run.
  bool conditional(int i) const { return nodes_[i].depth > 0; }
  // Something consumes the node, apart from the shape inputs of the nodes given
  // to IgnoreShapeInputs().
  bool live(int i) const { return nodes_[i].live; }
  // Live nodes that read the tensor, directly or through nodes that pass it on.
  const std::vector<int>& Consumers(TensorRef tensor) const;
  // Returns the only node that reads the tensor. Returns -1 if others read it
  // or if the tensor's node is preserved.
  int OnlyConsumer(TensorRef tensor) const;

  // Returns the value of a constant tensor, evaluated by TensorFlow, or null
  // for other tensors.
  const tensorflow::Tensor* Constant(TensorRef tensor);
  // Returns DT_INVALID if TensorFlow does not know the type.
  tensorflow::DataType dtype(TensorRef tensor) const;
  // Returns null unless the tensor has a floating-point type and known
  // dimensions. The dimensions are given as [N,H,W,C] whatever the tensor's
  // layout() is. `probe` selects the sizes of the graph's inputs. A dimension
  // is fixed only if all probes agree; probe 0 alone is just an example.
  // Optional probes follow the required ones: very small and large sizes, and
  // batches of several inputs that broadcast. Null in an optional probe means
  // that TensorFlow rejects such inputs.
  const Shape* shape(TensorRef tensor, int probe = 0) const;
  int probes() const { return probes_; }
  int required_probes() const { return required_probes_; }
  // The image size that the graph's constants require, if the graph does not
  // take the requested size. The example then has this size.
  const std::optional<ImageSize>& fitting_sizes() const {
    return fitting_sizes_;
  }

  // Probes on both sides of each bound (size_bounds.h) that the usual probes do
  // not show. A converted graph should be compared at these sizes.
  const std::vector<Probe>& bound_probes() const { return bound_probes_; }

  // Returns the elements of an integer tensor that CompleteShapes()
  // (shape_inference.h) evaluated for this probe, or null.
  const std::vector<int64_t>* integers(TensorRef tensor, int probe) const;

  // See layouts.h. Sequences are known before SetChannelsFirst() is called.
  Layout layout(TensorRef tensor) const;
  bool channels_first(TensorRef tensor) const {
    return channels_first_.count(tensor) > 0;
  }
  // Takes tensors of rank 4. Call it only once.
  void SetChannelsFirst(std::set<TensorRef> tensors);

  // Returns whether holds(probe) is true for all probes in which the tensor has
  // a shape.
  template <typename Predicate>
  bool Always(TensorRef tensor, Predicate holds) const {
    for (int probe = 0; probe < probes_; ++probe) {
      if (shape(tensor, probe) && !holds(probe)) return false;
    }
    return true;
  }
  // Returns whether dimension `d` of a tensor with a shape is the same for all
  // sizes.
  bool fixed(TensorRef tensor, int d) const {
    return Always(tensor, [&](int probe) {
      return (*shape(tensor, probe))[d] == (*shape(tensor))[d];
    });
  }
  // Returns whether all dimensions but the first are fixed.
  bool fixed_size(TensorRef tensor) const;
  // Returns whether dimension `d` is fixed even for inputs without images or
  // without pixels. The batch of `x[:1]`, for example, is not: it is 0 if `x`
  // has no images. Reads the item that the index was created from.
  bool known(TensorRef tensor, int d);
  // Returns whether holds(shape of a, shape of b) is true for all sizes.
  template <typename Predicate>
  bool Agree(TensorRef a, TensorRef b, Predicate holds) const {
    for (int probe = 0; probe < probes_; ++probe) {
      const Shape *x = shape(a, probe), *y = shape(b, probe);
      if ((!x || !y) && (x == y || probe >= required_probes_)) continue;
      if (!x || !y || !holds(*x, *y)) return false;
    }
    return true;
  }
  // Returns whether the tensors have the same shape for all sizes.
  bool same_shape(TensorRef a, TensorRef b) const;
  // Returns whether dimensions `first` to `last` (exclusive) of the tensors are
  // the same for all sizes.
  bool same_dimensions(TensorRef a, TensorRef b, size_t first,
                       size_t last) const;

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

 private:
  struct Node {
    const tensorflow::NodeDef* def = nullptr;
    std::vector<TensorRef> inputs;
    std::vector<int> controls, aliases;
    std::vector<TensorRef> forward;  // by port; empty: computes something
    std::vector<tensorflow::DataType> dtypes;
    std::vector<bool> sequences;  // by port: has rank 3
    std::vector<std::vector<std::optional<Shape>>> shapes;  // [probe][port]
    bool preserved = false, fed = false, constant = false, live = true;
    bool effect = false;
    bool evaluated = false;
    int depth = 0;  // nesting depth of conditionals and loops
    std::vector<tensorflow::Tensor> values;
  };

  // Appends a probe. Returns whether shapes depend on values of the inputs.
  using Infer = std::function<absl::StatusOr<bool>(const Probe&, bool example)>;

  GraphIndex() = default;
  absl::Status ReadEdges(const tensorflow::grappler::GrapplerItem& item);
  absl::Status ReadShapes(const tensorflow::grappler::GrapplerItem& item,
                          int64_t batch_size, const ImageSize& image_size);
  absl::Status SortNodes();
  void ReadIntegers(TensorRef tensor,
                    const tensorflow::OpInfo::TensorProperties& output);
  // Clears shapes that some required probe lacks or whose rank varies.
  void ForgetUncertainShapes();
  // Adds the names of nodes whose results for other sizes do not follow from
  // samples. Such nodes bound sizes of the graph's tensors or choose between
  // sizes.
  void AddUnpredictable(std::set<std::string>* nodes) const;
  // Appends probes on both sides of all bounds: copies of `example` with
  // another batch or image size. `may_vary` says which sizes of the graph's
  // inputs are open.
  struct MayVary {
    bool batches = false, sizes = false;
  };
  void ProbeBounds(const Infer& infer, const Probe& example,
                   const MayVary& may_vary);
  // Returns the bounds that may lie between the probes so far, or beyond them.
  std::set<BoundKey> OpenBounds() const;
  // Makes the shapes of these nodes, and of all nodes behind them, unknown.
  void ForgetShapesBehind(const std::set<int>& nodes);
  // Returns the image size for which operands of the graph fit each other
  // although those of the example do not. Returns nullopt if none was found.
  // Clears all probes.
  absl::StatusOr<std::optional<ImageSize>> FittingSizes(const Infer& infer,
                                                        const Probe& example);
  // Returns whether operands of some node do not fit each other in probe 0.
  bool HasMisfits() const;
  // Returns sizes for which more operands fit. Needs three probes: an example
  // of `sizes`, then one with a larger height and one with a larger width.
  ImageSize CorrectedSizes(const ImageSize& sizes) const;
  // Returns a shape with the rank that the tensor has in the graph: sequences
  // have rank 3.
  std::optional<Shape> GraphShape(TensorRef tensor, int probe) const;
  void ForgetShapes();
  // Appends a probe. Returns whether shapes depend on values of the inputs.
  absl::StatusOr<bool> InferShapes(
      const tensorflow::grappler::GrapplerItem& item,
      const PlaceholderSizes& fresh);
  void InferEmptyShapes();
  void ClassifyNodes();
  void FindConsumers();
  bool Evaluate(int i);
  std::vector<Node> nodes_;
  const tensorflow::grappler::GrapplerItem* item_ = nullptr;  // for known()
  int64_t example_batch_ = 1;
  ImageSize example_sizes_ = {1, 1};
  // Shapes for inputs without images and for inputs without pixels, by node and
  // port. Computed at the first use.
  std::optional<std::vector<std::vector<std::vector<std::optional<Shape>>>>>
      empty_shapes_;
  int probes_ = 0, required_probes_ = 0;
  std::optional<ImageSize> fitting_sizes_;
  bool batches_end_ = false;  // a tensor has no images if the batch is 1
  std::unordered_map<std::string, int> by_name_;
  std::vector<int> order_;
  std::set<int> ignored_shapes_;
  std::set<TensorRef> channels_first_;
  std::map<TensorRef, std::vector<int>> consumers_;
  std::vector<std::map<TensorRef, std::vector<int64_t>>> integers_;  // by probe
  std::vector<BoundDistances> bounds_;                               // by probe
  std::vector<Probe> bound_probes_;
  std::unique_ptr<tensorflow::grappler::DeviceSimple> cpu_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_GRAPH_GRAPH_INDEX_H_
