// ImportContext: what handlers read of the node that is imported, and where
// they emit its operators. Behind it, how attributes and constants are read
// whose tensors order their dimensions as a Layout says.
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
#include "cc/tensorflow/graph/attributes.h"
#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/importer.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {

// Says that a handler has emitted the node's operators, or why not.
using Result = absl::Status;

inline Result Refuse(std::string reason) {
  return absl::UnimplementedError(reason);
}

class ImportContext {
 public:
  ImportContext(GraphIndex* graph, const Placement& placement)
      : graph_(*graph), placement_(placement) {}

  // Goes on to a node. Refuses it if it can be no operator as far as device,
  // type and layout go.
  Result Enter(int i);
  // The operators emitted since.
  std::vector<ImportedOperator> TakeEmitted() {
    return std::exchange(emitted_, {});
  }

  GraphIndex& graph() const { return graph_; }
  // The node's type, and the layout of its tensors of rank 3 and 4.
  DataType dtype() const { return dtype_; }
  Layout layout() const { return layout_; }
  // Whether the node's device computes this type.
  Result CheckDtype(DataType dtype) const;

  // Data input k of any node; its shape, if it is of that node's type and of
  // such a rank; its value, if it is constant.
  TensorRef Input(int i, size_t k) const { return graph_.Input(i, k); }
  const Shape* InputShape(int i, size_t k,
                          std::initializer_list<size_t> ranks) const;
  const tensorflow::Tensor* Constant(int i, size_t k) const;
  // The first node that was said to be this activation of the tensor: `i`, if
  // none was.
  int FirstOf(int i, const Activation& activation, TensorRef x);

  // These make what computes the node's output 0: an operator, or of another
  // kind.
  ImportedOperator Make(int i, OperatorType type,
                        std::vector<TensorRef> inputs) const;
  ImportedOperator Make(int i, ImportedOperator::Kind kind,
                        std::vector<TensorRef> inputs) const;
  Result Emit(ImportedOperator op);

 private:
  GraphIndex& graph_;
  const Placement placement_;
  std::string device_;
  DataType dtype_ = DataType::kFloat32;
  Layout layout_ = Layout::kChannelsLast;
  std::vector<ImportedOperator> emitted_;
  std::map<std::pair<Activation, TensorRef>, int> activations_;
};

// x[:, None, None] and x[:, 0, 0].
bool ChangesRank(const tensorflow::NodeDef& node);
bool Reshapes(const tensorflow::NodeDef& node);

// Puts a list for the dimensions of a tensor in the order of [N,H,W,C]:
// `each` numbers per dimension, `missing` for that of height 1.
std::vector<int64_t> Logical(const std::vector<int64_t>& list, Layout layout,
                             size_t each = 1, int64_t missing = 0);
// The rank that a tensor of this shape has in the graph.
size_t RankOf(const Shape& shape, Layout layout);
// The place in that order of dimension `axis` of a tensor of this shape.
int64_t LogicalAxis(int64_t axis, const Shape& shape, Layout layout);

// Height and width of a list of four, [1, h, w, 1]; at least 1 and no more
// than an operator may have.
bool Spatial(const std::vector<int64_t>& of_dimensions, Layout layout,
             std::array<int64_t, 2>* result);
// The padding of a convolution or pooling; false if it is of batch or channels.
bool ReadPadding(const tensorflow::NodeDef& node, Layout layout,
                 Padding* padding);

// The number of a tensor that has one element.
std::optional<float> Scalar(const tensorflow::Tensor* tensor);
// As many values as channels, which may be one for all of them.
std::optional<std::vector<float>> Repeated(const tensorflow::Tensor& tensor,
                                           int64_t channels);
// The same of a tensor that x is added to or multiplied by: broadcast, it may
// vary along the channels only.
std::optional<std::vector<float>> PerChannel(const tensorflow::Tensor* tensor,
                                             const Shape& x, Layout layout);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_CONTEXT_H_
