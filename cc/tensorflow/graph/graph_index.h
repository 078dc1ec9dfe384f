// GraphIndex: a GraphDef with its edges, shapes and constants looked up, seen
// through nodes that only pass a tensor on. What the importer reads.
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

// How a tensor of the graph orders the dimensions of [N,H,W,C].
enum class Layout {
  kChannelsLast,   // as they are, or [N,C]
  kChannelsFirst,  // [N,C,H,W]
  kSequence,       // [N,W,C], of height 1
};

struct FreshSizes;

class GraphIndex {
 public:
  // `batch_size` takes the place of unknown leading dimensions, `image_size` of
  // the other unknown dimensions of the graph's inputs: those are the sizes of
  // the first probe. The item must outlive the index.
  static absl::StatusOr<std::unique_ptr<GraphIndex>> Create(
      const tensorflow::grappler::GrapplerItem& item, int64_t batch_size,
      const ImageSize& image_size);

  int size() const { return nodes_.size(); }
  const tensorflow::NodeDef& node(int i) const { return *nodes_[i].def; }
  // -1 if there is no such node.
  int Find(const std::string& name) const;
  // "name" or "name:port", as in NodeDef::input.
  std::string Name(TensorRef tensor) const;
  // Data inputs as the graph has them; control inputs.
  const std::vector<TensorRef>& inputs(int i) const { return nodes_[i].inputs; }
  const std::vector<int>& controls(int i) const { return nodes_[i].controls; }
  // Data input k, seen through nodes that pass it on.
  TensorRef Input(int i, int k) const { return Resolve(nodes_[i].inputs[k]); }
  TensorRef Resolve(TensorRef tensor) const;
  // All nodes, producers first (back edges of loops left out).
  const std::vector<int>& order() const { return order_; }

  // The node's name must survive: it is fed, fetched or kept, or nothing
  // consumes it, so somebody outside of the graph may.
  bool preserved(int i) const { return nodes_[i].preserved; }
  // The caller provides the node's outputs.
  bool fed(int i) const { return nodes_[i].fed; }
  // The node only passes tensors on: consumers are those of its inputs.
  bool passthrough(int i) const { return !nodes_[i].forward.empty(); }
  // The node computes a constant, or waits for nothing.
  bool constant(int i) const { return nodes_[i].constant; }
  // The node reads or computes a weight that is a variable, see IsWeight().
  bool variable(int i) const;
  // Whether it matters to others that the node has run, and not only what it
  // has computed: it, or what it waits for, may fail or change something.
  // TensorFlow lets all that a function computes wait for its arguments.
  bool has_effect(int i) const { return nodes_[i].effect; }
  // Whether the node waits for such a one.
  bool waits(int i) const;
  // Those that are waited for by the node, or by what goes where the node
  // becomes a part of an operator: weights and shapes that it reads.
  std::set<int> WaitsFor(int i) const;
  // In the branch of a conditional or in a loop, where it may not run.
  bool conditional(int i) const { return nodes_[i].depth > 0; }
  // Consumed, other than as a shape that a node of IgnoreShapeInputs() reads.
  bool live(int i) const { return nodes_[i].live; }
  // Live nodes that read the tensor, nodes that pass it on left out.
  const std::vector<int>& Consumers(TensorRef tensor) const;
  // The only node that reads the tensor, or -1.
  int OnlyConsumer(TensorRef tensor) const;

  // The value of a constant tensor, evaluated by TensorFlow; null if it is
  // none.
  const tensorflow::Tensor* Constant(TensorRef tensor);
  // DT_INVALID if TensorFlow does not know it.
  tensorflow::DataType dtype(TensorRef tensor) const;
  // Null unless the tensor is of floating point with known dimensions, which
  // are given as [N,H,W,C] whatever the tensor's layout() is. `probe`: for
  // which sizes of the graph's inputs. What the first, an example, says of a
  // dimension holds for all sizes only if every probe says it. After those that
  // are required come very small and large sizes, and batches of several inputs
  // that broadcast; null there says that TensorFlow does not take such inputs.
  const Shape* shape(TensorRef tensor, int probe = 0) const;
  int probes() const { return probes_; }
  int required_probes() const { return required_probes_; }
  // The sizes of images that the example has instead of the one that was asked
  // for, which the graph does not take: those that its constants ask for.
  const std::optional<ImageSize>& fitting_sizes() const {
    return fitting_sizes_;
  }

  // Probes on both sides of each bound (size_bounds.h) that the usual probes do
  // not show. A converted graph should be compared at these sizes.
  const std::vector<Probe>& bound_probes() const { return bound_probes_; }

  // The elements of an integer tensor that CompleteShapes() (shape_inference.h)
  // has evaluated for this probe; or null.
  const std::vector<int64_t>* integers(TensorRef tensor, int probe) const;

  // See layouts.h; sequences are known from the start.
  Layout layout(TensorRef tensor) const;
  bool channels_first(TensorRef tensor) const {
    return channels_first_.count(tensor) > 0;
  }
  // Tensors of rank 4; once.
  void SetChannelsFirst(std::set<TensorRef> tensors);

  // Whether `holds`, of a probe, does in all in which the tensor has a shape.
  template <typename Predicate>
  bool Always(TensorRef tensor, Predicate holds) const {
    for (int probe = 0; probe < probes_; ++probe) {
      if (shape(tensor, probe) && !holds(probe)) return false;
    }
    return true;
  }
  // Whether dimension `d` of a tensor with a shape is the same for all sizes.
  bool fixed(TensorRef tensor, int d) const {
    return Always(tensor, [&](int probe) {
      return (*shape(tensor, probe))[d] == (*shape(tensor))[d];
    });
  }
  // Whether all but the first are.
  bool fixed_size(TensorRef tensor) const;
  // Whether it is of inputs without images or cells, too: not that of `x[:1]`,
  // say, which of no images is none. Reads the item that the index was made of.
  bool known(TensorRef tensor, int d);
  // Whether `holds`, of the shapes of two tensors, does for all sizes.
  template <typename Predicate>
  bool Agree(TensorRef a, TensorRef b, Predicate holds) const {
    for (int probe = 0; probe < probes_; ++probe) {
      const Shape *x = shape(a, probe), *y = shape(b, probe);
      if ((!x || !y) && (x == y || probe >= required_probes_)) continue;
      if (!x || !y || !holds(*x, *y)) return false;
    }
    return true;
  }
  // Whether the tensors have the same shape for all sizes.
  bool same_shape(TensorRef a, TensorRef b) const;
  // Whether their dimensions from `first` up to `last` are the same.
  bool same_dimensions(TensorRef a, TensorRef b, size_t first,
                       size_t last) const;

  // Makes `node`, whose output 0 is the same as `original`, pass that on.
  void Alias(int node, TensorRef original);
  // The nodes that Alias() made pass on an output of `original`.
  const std::vector<int>& aliases(int original) const {
    return nodes_[original].aliases;
  }
  // The data input of a node that says what shape its output shall have, or -1.
  int ShapeInput(int i) const;
  // These nodes no longer count as consumers of their ShapeInput().
  void IgnoreShapeInputs(const std::set<int>& nodes);

 private:
  struct Node {
    const tensorflow::NodeDef* def = nullptr;
    std::vector<TensorRef> inputs;
    std::vector<int> controls, aliases;
    std::vector<TensorRef> forward;  // of each port; empty: computes something
    std::vector<tensorflow::DataType> dtypes;
    std::vector<bool> sequences;  // whether each port's tensor has rank 3
    std::vector<std::vector<std::optional<Shape>>> shapes;  // [probe][port]
    bool preserved = false, fed = false, constant = false, live = true;
    bool effect = false;
    bool evaluated = false;
    int depth = 0;  // of conditionals and loops
    std::vector<tensorflow::Tensor> values;
  };

  // Appends a probe; says whether shapes depend on values of the inputs.
  using Infer = std::function<absl::StatusOr<bool>(const Probe&, bool example)>;

  GraphIndex() = default;
  absl::Status ReadEdges(const tensorflow::grappler::GrapplerItem& item);
  absl::Status ReadShapes(const tensorflow::grappler::GrapplerItem& item,
                          int64_t batch_size, const ImageSize& image_size);
  absl::Status SortNodes();
  void ReadIntegers(TensorRef tensor,
                    const tensorflow::OpInfo::TensorProperties& output);
  // A shape that is only known for some sizes is not known.
  void ForgetUncertainShapes();
  // Adds the nodes whose results for other sizes do not follow from samples:
  // those that bound sizes of the graph's tensors, or choose between them.
  void AddUnpredictable(std::set<std::string>* nodes) const;
  // Appends probes on both sides of all bounds, `example` with one size
  // changed. `may_vary` says which sizes of the graph's inputs are open.
  struct MayVary {
    bool batches = false, sizes = false;
  };
  void ProbeBounds(const Infer& infer, const Probe& example,
                   const MayVary& may_vary);
  // The bounds that may lie between the probes so far, or beyond them.
  std::set<BoundKey> OpenBounds() const;
  // Makes the shapes of these nodes, and of all nodes behind them, unknown.
  void ForgetShapesBehind(const std::set<int>& nodes);
  // The sizes for which operands of the graph fit each other, as they do not
  // for the example's; null: none were found. No probe is left.
  absl::StatusOr<std::optional<ImageSize>> FittingSizes(const Infer& infer,
                                                        const Probe& example);
  // Whether operands of a node do not fit each other in the first probe.
  bool HasMisfits() const;
  // Sizes for which more of them fit, by three probes: an example of `sizes`,
  // and others with one of them larger.
  ImageSize CorrectedSizes(const ImageSize& sizes) const;
  // A shape with the dimensions that the graph has.
  std::optional<Shape> GraphShape(TensorRef tensor, int probe) const;
  void ForgetShapes();
  // Appends a probe; says whether shapes depend on values of the inputs.
  absl::StatusOr<bool> InferShapes(
      const tensorflow::grappler::GrapplerItem& item, const FreshSizes& fresh);
  void InferNothing();
  void ClassifyNodes();
  void FindConsumers();
  bool Evaluate(int i);
  std::vector<Node> nodes_;
  const tensorflow::grappler::GrapplerItem* item_ = nullptr;  // for known()
  int64_t example_batch_ = 1;
  ImageSize example_sizes_ = {1, 1};
  // Of inputs without images, and without cells, by node and port; read when
  // first asked for.
  std::optional<std::vector<std::vector<std::vector<std::optional<Shape>>>>>
      nothing_;
  int probes_ = 0, required_probes_ = 0;
  std::optional<ImageSize> fitting_sizes_;
  bool batches_end_ = false;  // with the first image, for some tensor
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
