// ImportContext: gives handlers access to the node that is imported, and
// collects the operators that handlers emit. The functions below the class read
// attributes and constants that have one entry per dimension, in the order of a
// Layout.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_CONTEXT_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_CONTEXT_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/core/reason.h"
#include "cc/tensorflow/graph/attributes.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/importer.h"
#include "cc/tensorflow/shapes/analyzed_graph.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {

// The result of a handler: OK if it has emitted the node's operators, else the
// reason why it has not.
using Result = absl::Status;

Result Refuse(Reason reason, absl::string_view text);
// Refuses a node because the engine does not know enough about the shapes or
// types of its tensors, or does not support them.
Result RefuseShape();
// Refuses a node because `operand`, such as "the axis", is not constant.
Result RefuseVarying(absl::string_view operand);
// Returns the reason of a refusal.
Reason ReasonOf(const Result& refusal);

class ImportContext {
 public:
  ImportContext(AnalyzedGraph* analyzed, const DevicePlacement& placement)
      : analyzed_(*analyzed),
        graph_(analyzed->graph()),
        shapes_(analyzed->shapes()),
        layouts_(analyzed->layouts()),
        placement_(placement) {}

  // Makes `i` the current node. Refuses the node if its device, data type or
  // layout does not allow an operator.
  Result Enter(int i);
  // Returns and clears the operators that handlers have emitted.
  std::vector<ImportedOperator> TakeEmitted() {
    return std::exchange(emitted_, {});
  }

  AnalyzedGraph& analyzed() const { return analyzed_; }
  GraphView& graph() const { return graph_; }
  ShapeTable& shapes() const { return shapes_; }
  const LayoutMap& layouts() const { return layouts_; }
  // The node's data type, and the layout of its tensors of rank 3 and 4.
  DataType dtype() const { return dtype_; }
  Layout layout() const { return layout_; }
  // Refuses node `i` on a GPU if, in sample 0, it reads or writes a tensor that
  // is too large for the engine's kernels.
  Result CheckSizes(int i) const;

  // Input() returns data input k of node `i`. InputShape() returns its shape,
  // but null unless the input has the current node's data type, one of `ranks`,
  // and at least one element in all required shape samples. Constant() returns
  // the input's value, or null if the input is not constant.
  TensorRef Input(int i, size_t k) const { return graph_.Input(i, k); }
  const Shape* InputShape(int i, size_t k,
                          std::initializer_list<size_t> ranks) const;
  const tensorflow::Tensor* Constant(int i, size_t k) const;
  // Returns the first node that computes this activation of `x`, which is `i`
  // itself if no earlier call had the same activation and tensor.
  int FirstOf(int i, const Activation& activation, TensorRef x);

  // Return a new ImportedOperator for output 0 of node `i`: an operator of type
  // `type`, or a node of another kind.
  ImportedOperator Make(int i, OperatorType type,
                        std::vector<TensorRef> inputs) const;
  ImportedOperator Make(int i, ImportedOperator::Kind kind,
                        std::vector<TensorRef> inputs) const;
  Result Emit(ImportedOperator op);

 private:
  AnalyzedGraph& analyzed_;
  GraphView& graph_;
  ShapeTable& shapes_;
  const LayoutMap& layouts_;
  const DevicePlacement placement_;
  std::string device_;
  DataType dtype_ = DataType::kFloat32;
  Layout layout_ = Layout::kChannelsLast;
  std::vector<ImportedOperator> emitted_;
  std::map<std::pair<Activation, TensorRef>, int> activations_;
};

// Returns true for slices that add or remove dimensions, such as x[:, None] and
// x[:, 0, 0].
bool ChangesRank(const tensorflow::NodeDef& node);
bool Reshapes(const tensorflow::NodeDef& node);

// Reorders a list with `each` numbers per dimension from `layout` to [N,H,W,C].
// In the layout of sequences, [N,W,C], the height is missing: `missing` is
// inserted for it.
std::vector<int64_t> Logical(const std::vector<int64_t>& list, Layout layout,
                             size_t each = 1, int64_t missing = 0);
// Returns the rank that a tensor of this shape, [N,H,W,C] or [N,C], has in the
// graph.
size_t RankOf(const Shape& shape, Layout layout);
// Returns the index in [N,H,W,C] of the graph's dimension `axis`, which may be
// negative. `shape` is the shape of the tensor as [N,H,W,C].
int64_t LogicalAxis(int64_t axis, const Shape& shape, Layout layout);

// Reads height and width from a list of four numbers, such as [1, h, w, 1], in
// the order of `layout`. Returns false for other lists, and if a number is
// below 1 or above kMaxDimension.
bool Spatial(const std::vector<int64_t>& of_dimensions, Layout layout,
             std::array<int64_t, 2>* result);
// Reads the padding of a convolution or pooling. Returns false if the node pads
// the batch or channels.
bool ReadPadding(const tensorflow::NodeDef& node, Layout layout,
                 Padding* padding);

// Returns the value of a floating-point tensor with one element, or nullopt for
// other tensors.
std::optional<float> Scalar(const tensorflow::Tensor* tensor);
// Returns one value per channel from a vector, or from a tensor with one
// element, which is used for all channels.
std::optional<std::vector<float>> Repeated(const tensorflow::Tensor& tensor,
                                           int64_t channels);
// Returns one value per channel from a constant tensor that is added to `x` or
// multiplied with `x`. Returns nullopt if the tensor also varies along other
// dimensions.
std::optional<std::vector<float>> PerChannel(const tensorflow::Tensor* tensor,
                                             const Shape& x, Layout layout);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_CONTEXT_H_
