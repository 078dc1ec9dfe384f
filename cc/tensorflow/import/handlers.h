// Importer: the state of an import, and a handler for each kind of node. Its
// methods are defined by family, in the files of those names; the table of
// handlers is in importer.cc.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/graph/shape_arithmetic.h"
#include "cc/tensorflow/import/importer.h"
#include "cc/tensorflow/import/normalization.h"
#include "cc/tensorflow/import/weight.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {

// Says that a handler has emitted the node's operators, or why not.
using Result = absl::Status;

inline Result Refuse(std::string reason) {
  return absl::UnimplementedError(reason);
}

// An attribute of the node.
template <typename T>
T Attr(const tensorflow::NodeDef& node, const char* name, T otherwise) {
  T value;
  return tensorflow::TryGetNodeAttr(node, name, &value) ? value : otherwise;
}

// The number of a tensor that has one element.
std::optional<float> Scalar(const tensorflow::Tensor* tensor);

// The activation that a node, or a part of a fused one, is by its operation's
// name.
std::optional<Activation> ActivationOf(const std::string& op,
                                       const tensorflow::NodeDef& node);

class Importer {
 public:
  Importer(GraphIndex* graph, const Placement& placement,
           std::vector<Refusal>* refusals)
      : graph_(*graph), placement_(placement), refusals_(*refusals) {}

  std::vector<ImportedOperator> Run();

 private:
  using Handler = Result (Importer::*)(int);

  static const std::unordered_map<std::string, Handler>& Handlers();

  // Whether the node may be an operator as far as device, type and layout go;
  // notes the latter two.
  Result Inspect(int i);
  // Whether TensorFlow refuses to run the node for sizes that the operators
  // from `first` on, which are emitted for it, would take.
  bool TakesTooMuch(int i, size_t first);

  // Operands of the node, and operators of it (operands.cc).

  Result CheckDtype(DataType dtype) const;
  // Puts a list for the dimensions of the node's tensors in the order of
  // [N,H,W,C]: `each` numbers per dimension, `missing` for that of height 1.
  std::vector<int64_t> Logical(const std::vector<int64_t>& list,
                               size_t each = 1, int64_t missing = 0) const;
  // The rank that a tensor of this shape has in the graph.
  size_t RankOf(const Shape& shape) const;
  // The place in that order of dimension `axis` of a tensor of this shape.
  int64_t LogicalAxis(int64_t axis, const Shape& shape) const;
  // x[:, None, None] and x[:, 0, 0].
  static bool ChangesRank(const tensorflow::NodeDef& node);
  static bool Reshapes(const tensorflow::NodeDef& node);
  // A scalar or a vector of x's channels, as a vector.
  std::optional<std::vector<float>> Channels(const tensorflow::Tensor* tensor,
                                             const Shape& x) const;
  // The same of a tensor that x is added to or multiplied by: broadcast, it may
  // vary along the channels only.
  std::optional<std::vector<float>> PerChannel(const tensorflow::Tensor* tensor,
                                               const Shape& x) const;
  static std::optional<std::vector<float>> Repeated(
      const tensorflow::Tensor& tensor, int64_t channels);
  // The shape of data input k, if it is of the node's type and of such a rank.
  const Shape* InputShape(int i, size_t k, std::initializer_list<size_t> ranks);
  const tensorflow::Tensor* Constant(int i, size_t k);
  // Integer operand k, if it is the same for every size of the graph's inputs:
  // a constant, or computed of sizes that are fixed.
  std::optional<std::vector<int64_t>> FixedIntegers(int i, size_t k);
  // Input k as the weight of a convolution or product, and its shape.
  std::optional<std::pair<Weight, Shape>> Filter(int i, size_t k, size_t rank);
  // The only node that reads the tensor, or -1.
  int OnlyConsumer(TensorRef tensor);
  ImportedOperator Make(int i, OperatorType type,
                        std::vector<TensorRef> inputs);
  Result Emit(ImportedOperator op);
  Result EmitScale(int i, TensorRef x, std::vector<float> scale,
                   std::vector<float> shift);
  // Height and width of a list of four, [1, h, w, 1]; at least 1 and no more
  // than an operator may have.
  bool Spatial(const std::vector<int64_t>& of_dimensions,
               std::array<int64_t, 2>* result) const;

  // Convolutions and products (convolutions.cc).

  // Of a convolution.
  Result ReadSteps(const tensorflow::NodeDef& node, Operator* op) const;
  Result ReadPadding(const tensorflow::NodeDef& node, Padding* padding);
  // Reads the epilogue that the remapper has fused into a _FusedConv2D or
  // _FusedMatMul; its arguments start at data input 2.
  Result ReadFusedOps(int i, ImportedOperator* op);
  Result Convolution(int i);
  Result TransposedConvolution(int i);
  // How much of the windows is cut off, which makes the output as large as
  // `sizes` say for every size of the input; or the tensor that the output is
  // as large as.
  Result ReadTransposedSize(int i, const SizeExpressions& sizes,
                            ImportedOperator* imported);
  Result ReadReference(const SizeExpressions& sizes, ImportedOperator* op);
  // tf.nn.convolution writes a dilated convolution as a plain one between
  // SpaceToBatchND and BatchToSpaceND: takes all three into `op`.
  void ReadSpaceToBatch(ImportedOperator* op);
  Result MatMul(int i);
  Result BatchMatMul(int i);
  Result Einsum(int i);
  // Input k times the constant matrix that is the other one: [N,C] or, with
  // their channels last, maps.
  Result EmitProduct(int i, size_t k, std::initializer_list<size_t> ranks,
                     bool transposed);

  // Elementwise operators and scales (elementwise.cc).

  Result BiasAdd(int i);
  static std::optional<BinaryFunction> FunctionOf(const std::string& op);
  Result Arithmetic(int i);
  // Emits the node as a scale, if its constant operand `k` is a number for each
  // channel of x.
  bool ScaleOf(int i, int k, const Shape& x);
  // The node as an activation, if it is the maximum or minimum with a number.
  std::optional<Activation> BoundOf(int i, int k, const Shape& x);
  Result BinaryWithConstant(int i, int k, const Shape& x,
                            const tensorflow::Tensor& constant);
  Result AddN(int i);
  // A sum over the list that tensors were packed to.
  Result SumOfPack(int i);
  Result BatchNorm(int i);
  // An activation of input k.
  Result Unary(int i, const Activation& activation, size_t k = 0);
  Result Negative(int i);
  Result Power(int i);
  Result Clip(int i);
  // The number that is selected, as operand k or as zeros of x's shape; what
  // computes these is appended to `nodes`.
  std::optional<float> SelectedNumber(int i, int k, std::vector<int>* nodes);
  // x where x > number, else 0: a Relu with a threshold.
  Result Threshold(int i);
  // Of tensors as large as what is compared, and of numbers: rules.h has the
  // rules that find what it is a part of.
  Result Select(int i);

  // Norms (norms.cc).

  // The norm that ends with a node of rank `rank`.
  std::optional<Normalization> NormOf(int node, size_t rank);
  // Scale and shift have a number for each channel, in the operator's groups if
  // the norm is written of these.
  Result EmitNorm(TensorRef x, const Normalization& norm, ImportedOperator op);
  // With the mean and variance of each pixel, image, or channel of an image.
  Result Norm(int i);
  // [N,H,W,C], as [N,H,W,groups,C/groups] or [N,H*W,groups,C/groups], with the
  // mean and variance of each image's groups, and back by Reshape `i`.
  Result GroupNorm(int i);
  // [N,H,W,C], as [N,H,W,groups,C/groups], with these two exchanged, and back
  // by Reshape `i`.
  Result ChannelShuffle(int i);

  // Windows and reductions (pools.cc).

  Result Pool(int i);
  Result Reduce(int i);
  // The mean of all rows, or of all columns, of images of a fixed height or
  // width: an average pooling with a window as large.
  Result MeanOfRows(int i, const std::vector<int64_t>& axes);
  Result Softmax(int i);
  Result Lrn(int i);

  // Parts of tensors, and other shapes of them (parts.cc).

  Result Concat(int i);
  Result Pad(int i);
  Result Split(int i);
  void EmitSlice(int i, int port, TensorRef x, int64_t offset, int64_t size);
  Result Slice(int i);
  Result StridedSlice(int i);
  // Data input 0 from `begin` on, of each dimension as the graph orders them
  // and from the end if negative, as far as the node's shape goes: a range of
  // channels, or cells cut from the borders of height and width, by the same
  // numbers for every size of the graph's inputs.
  Result EmitRange(int i, const std::vector<int64_t>& begin);
  Result Transpose(int i);
  Result Reshape(int i);
  Result Cast(int i);

  // Sizes of images (resizes.cc).

  // The output's height and width as its shape operand says, for every size of
  // the input: op's first one, of the shape `x`.
  Result ReadOutputSize(int i, const SizeExpressions& sizes,
                        ImportedOperator* op);
  Result Resize(int i);
  Result MoveDepth(int i);
  Result Tile(int i);
  // One cell as an image of such cells, or one channel as several, by Tile or
  // BroadcastTo.
  Result Spread(int i);
  // tf.repeat along height or width, as which Keras writes UpSampling2D:
  // ExpandDims behind that dimension, Tile along the new one, Reshape to an
  // image again.
  Result Repeat(int i);

  GraphIndex& graph_;
  const Placement placement_;
  std::vector<Refusal>& refusals_;
  // Of the node that is being imported.
  std::string device_;
  DataType dtype_ = DataType::kFloat32;
  Layout layout_ = Layout::kChannelsLast;  // of its tensors of rank 3 and 4
  std::vector<ImportedOperator> operators_;
  std::map<std::pair<Activation, TensorRef>, int> unary_;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_HANDLERS_H_
