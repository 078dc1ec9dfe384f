#include "cc/tensorflow/import/importer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/layouts.h"
#include "cc/tensorflow/graph/shape_arithmetic.h"
#include "cc/tensorflow/import/normalization.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;
using Result = absl::Status;

Result Refuse(std::string reason) { return absl::UnimplementedError(reason); }

template <typename T>
T Attr(const NodeDef& node, const char* name, T otherwise) {
  T value;
  return tensorflow::TryGetNodeAttr(node, name, &value) ? value : otherwise;
}

// The number of a tensor that has one element.
std::optional<float> Scalar(const Tensor* tensor) {
  if (!tensor || !ToDataType(tensor->dtype()) || tensor->NumElements() != 1) {
    return std::nullopt;
  }
  return Floats(*tensor)[0];
}

const std::unordered_map<std::string, Activation>& UnaryActivations() {
  static const auto* const kActivations =
      new std::unordered_map<std::string, Activation>{
          {"Relu", Activation::kRelu},
          {"Relu6", Activation::kRelu6},
          {"LeakyRelu", Activation::kLeakyRelu},
          {"Elu", Activation::kElu},
          {"Selu", Activation::kSelu},
          {"Sigmoid", Activation::kSigmoid},
          {"Tanh", Activation::kTanh},
          {"Softplus", Activation::kSoftplus},
          {"Softsign", Activation::kSoftsign},
          {"Exp", Activation::kExp},
          {"Expm1", Activation::kExpm1},
          {"Log", Activation::kLog},
          {"Log1p", Activation::kLog1p},
          {"Sqrt", Activation::kSqrt},
          {"Rsqrt", Activation::kRsqrt},
          {"Square", Activation::kSquare},
          {"Abs", Activation::kAbs},
          {"Erf", Activation::kErf},
          {"Erfc", Activation::kErfc},
          {"Inv", {Activation::kPow, -1.0f}},
          {"Reciprocal", {Activation::kPow, -1.0f}},
  };
  return *kActivations;
}

// The activation that a node, or a part of a fused one, is by its operation's
// name.
std::optional<Activation> ActivationOf(const std::string& op,
                                       const NodeDef& node) {
  const auto it = UnaryActivations().find(op);
  if (it == UnaryActivations().end()) return std::nullopt;
  if (op != "LeakyRelu") return it->second;
  const char* const alpha = node.op() == op ? "alpha" : "leakyrelu_alpha";
  return Activation(Activation::kLeakyRelu, Attr<float>(node, alpha, 0.2f));
}

class Importer {
 public:
  Importer(GraphIndex* graph, const Placement& placement,
           std::vector<Refusal>* refusals)
      : graph_(*graph), placement_(placement), refusals_(*refusals) {}

  std::vector<ImportedOperator> Run() {
    for (int i : graph_.order()) {
      if (graph_.constant(i) || graph_.conditional(i) ||
          graph_.passthrough(i) || graph_.fed(i) || graph_.variable(i) ||
          !graph_.live(i)) {
        continue;
      }
      const NodeDef& node = graph_.node(i);
      const auto it = Handlers().find(node.op());
      const auto activation = ActivationOf(node.op(), node);
      if (it == Handlers().end() && !activation) continue;
      Result result = Inspect(i);
      if (result.ok()) {
        result = activation ? Unary(i, *activation) : (this->*it->second)(i);
      }
      if (!result.ok() && node.op().find("Conv") != std::string::npos) {
        refusals_.push_back({i, std::string(result.message())});
      }
    }
    for (ImportedOperator& op : operators_) {
      const std::vector<int>& more = graph_.aliases(op.output.node);
      op.nodes.insert(op.nodes.end(), more.begin(), more.end());
    }
    return std::move(operators_);
  }

 private:
  using Handler = Result (Importer::*)(int);

  static const std::unordered_map<std::string, Handler>& Handlers() {
    static const auto* const kHandlers =
        new std::unordered_map<std::string, Handler>{
            {"Conv2D", &Importer::Convolution},
            {"DepthwiseConv2dNative", &Importer::Convolution},
            {"_FusedConv2D", &Importer::Convolution},
            {"_FusedDepthwiseConv2dNative", &Importer::Convolution},
            {"Conv2DBackpropInput", &Importer::TransposedConvolution},
            {"MatMul", &Importer::MatMul},
            {"_FusedMatMul", &Importer::MatMul},
            {"BiasAdd", &Importer::BiasAdd},
            {"Add", &Importer::Arithmetic},
            {"AddV2", &Importer::Arithmetic},
            {"Sub", &Importer::Arithmetic},
            {"Mul", &Importer::Arithmetic},
            {"RealDiv", &Importer::Arithmetic},
            {"Maximum", &Importer::Arithmetic},
            {"Minimum", &Importer::Arithmetic},
            {"SquaredDifference", &Importer::Arithmetic},
            {"AddN", &Importer::AddN},
            {"FusedBatchNorm", &Importer::BatchNorm},
            {"FusedBatchNormV2", &Importer::BatchNorm},
            {"FusedBatchNormV3", &Importer::BatchNorm},
            {"Neg", &Importer::Negative},
            {"Pow", &Importer::Power},
            {"ClipByValue", &Importer::Clip},
            {"Select", &Importer::Select},
            {"SelectV2", &Importer::Select},
            {"MaxPool", &Importer::Pool},
            {"AvgPool", &Importer::Pool},
            {"Mean", &Importer::Reduce},
            {"Max", &Importer::Reduce},
            {"Sum", &Importer::Reduce},
            {"ConcatV2", &Importer::Concat},
            {"Softmax", &Importer::Softmax},
            {"ResizeBilinear", &Importer::Resize},
            {"ResizeNearestNeighbor", &Importer::Resize},
            {"Tile", &Importer::Repeat},
            {"DepthToSpace", &Importer::MoveDepth},
            {"SpaceToDepth", &Importer::MoveDepth},
            {"LRN", &Importer::Lrn},
            {"Pad", &Importer::Pad},
            {"PadV2", &Importer::Pad},
            {"MirrorPad", &Importer::Pad},
            {"Split", &Importer::Split},
            {"SplitV", &Importer::Split},
            {"Slice", &Importer::Slice},
            {"StridedSlice", &Importer::StridedSlice},
            {"Transpose", &Importer::Transpose},
            {"Reshape", &Importer::Reshape},
            {"Squeeze", &Importer::Reshape},
            {"ExpandDims", &Importer::Reshape},
            {"Cast", &Importer::Cast},
    };
    return *kHandlers;
  }

  // Whether the node may be an operator as far as device, type and layout go;
  // notes the latter two.
  Result Inspect(int i) {
    const NodeDef& node = graph_.node(i);
    device_ = placement_.DeviceOf(node);
    if (!placement_.Takes(device_)) {
      return Refuse(absl::StrCat("it is placed on ", device_));
    }
    const auto dtype = ToDataType(graph_.dtype({i, 0}));
    if (!dtype) return Refuse("its type is no floating-point type");
    dtype_ = *dtype;
    TF_RETURN_IF_ERROR(CheckDtype(dtype_));
    const std::string& op = node.op();
    // These connect tensors of different types or layouts.
    if (op == "Cast" || op == "Transpose") return absl::OkStatus();
    std::optional<Layout> layout;
    const bool reshapes = op == "Reshape" || op == "Squeeze" ||
                          op == "ExpandDims" || ChangesRank(node);
    const auto fits = [&](TensorRef t) {
      const Shape* shape = graph_.shape(t);
      if (!shape || shape->size() != 4 || reshapes) return true;
      if (!layout) layout = graph_.layout(t);
      return *layout == graph_.layout(t);
    };
    for (size_t k = 0; k < graph_.inputs(i).size(); ++k) {
      const TensorRef t = graph_.Input(i, k);
      if (graph_.constant(t.node) || graph_.variable(t.node)) continue;
      if (!fits(t)) return Refuse("its tensors differ in layout");
    }
    if (!fits({i, 0})) return Refuse("its tensors differ in layout");
    layout_ = layout.value_or(Layout::kChannelsLast);
    const std::string format = Attr<std::string>(node, "data_format", "");
    if (layout && !format.empty() &&
        format != (layout_ == Layout::kChannelsFirst ? "NCHW" : "NHWC")) {
      return Refuse(absl::StrCat("its data format ", format,
                                 " is not that of its tensors"));
    }
    return absl::OkStatus();
  }
  Result CheckDtype(DataType dtype) const {
    if (dtype != DataType::kFloat32 && device_ == kCpu) {
      return Refuse(absl::StrCat("the engine computes ", ToString(dtype),
                                 " on GPUs only"));
    }
    return absl::OkStatus();
  }

  // What is given for each dimension of the node's tensors, in the order of
  // [N,H,W,C]; `each` numbers per dimension, `missing` for that of height 1.
  std::vector<int64_t> Logical(const std::vector<int64_t>& list,
                               size_t each = 1, int64_t missing = 0) const {
    if (layout_ == Layout::kSequence && list.size() == 3 * each) {
      std::vector<int64_t> result = list;
      result.insert(result.begin() + each, each, missing);
      return result;
    }
    if (layout_ != Layout::kChannelsFirst || list.size() != 4 * each) {
      return list;
    }
    std::vector<int64_t> result;
    for (size_t d : {0, 2, 3, 1}) {
      result.insert(result.end(), list.begin() + d * each,
                    list.begin() + (d + 1) * each);
    }
    return result;
  }
  // The rank that a tensor of this shape has in the graph.
  size_t RankOf(const Shape& shape) const {
    return shape.size() - (shape.size() == 4 && layout_ == Layout::kSequence);
  }
  // The place in that order of dimension `axis` of a tensor of this shape.
  int64_t LogicalAxis(int64_t axis, const Shape& shape) const {
    if (axis < 0) axis += RankOf(shape);
    if (shape.size() != 4 || axis < 1 || axis > 3) return axis;
    switch (layout_) {
      case Layout::kChannelsLast:
        return axis;
      case Layout::kChannelsFirst:
        return axis == 1 ? 3 : axis - 1;
      case Layout::kSequence:
        return axis + 1;
    }
    return axis;
  }

  // x[:, None, None] and x[:, 0, 0].
  static bool ChangesRank(const NodeDef& node) {
    return node.op() == "StridedSlice" &&
           (Attr<int64_t>(node, "new_axis_mask", 0) ||
            Attr<int64_t>(node, "shrink_axis_mask", 0));
  }

  // A scalar or a vector of x's channels, as a vector.
  std::optional<std::vector<float>> Channels(const Tensor* tensor,
                                             const Shape& x) const {
    if (!tensor || !ToDataType(tensor->dtype()) || tensor->dims() > 1) {
      return std::nullopt;
    }
    return Repeated(*tensor, x.back());
  }
  // The same of a tensor that x is added to or multiplied by: broadcast, it may
  // vary along the channels only.
  std::optional<std::vector<float>> PerChannel(const Tensor* tensor,
                                               const Shape& x) const {
    if (!tensor || !ToDataType(tensor->dtype()) ||
        tensor->dims() > static_cast<int>(RankOf(x))) {
      return std::nullopt;
    }
    if (tensor->NumElements() != 1) {
      const bool first = layout_ == Layout::kChannelsFirst && x.size() == 4;
      const int channel = tensor->dims() - (first ? 3 : 1);
      if (channel < 0 || tensor->dim_size(channel) != x.back()) {
        return std::nullopt;
      }
    }
    return Repeated(*tensor, x.back());
  }
  static std::optional<std::vector<float>> Repeated(const Tensor& tensor,
                                                    int64_t channels) {
    std::vector<float> values = Floats(tensor);
    if (values.size() == 1) values.resize(channels, values[0]);
    if (static_cast<int64_t>(values.size()) != channels) return std::nullopt;
    return values;
  }

  // The shape of data input k, if it is of the node's type and of such a rank.
  const Shape* InputShape(int i, size_t k,
                          std::initializer_list<size_t> ranks) {
    if (k >= graph_.inputs(i).size() ||
        graph_.dtype(graph_.Input(i, k)) != graph_.dtype({i, 0})) {
      return nullptr;
    }
    const TensorRef t = graph_.Input(i, k);
    const Shape* shape = graph_.shape(t);
    if (!shape || std::count(ranks.begin(), ranks.end(), shape->size()) == 0) {
      return nullptr;
    }
    // What is empty for some sizes, such as all images but the first, cannot be
    // measured for those.
    for (int probe = 0; probe < graph_.required_probes(); ++probe) {
      if (NumElements(*graph_.shape(t, probe)) == 0) return nullptr;
    }
    return shape;
  }
  const Tensor* Constant(int i, size_t k) {
    if (k >= graph_.inputs(i).size()) return nullptr;
    return graph_.Constant(graph_.inputs(i)[k]);
  }
  // Input k as the weight of a convolution or product, and its shape.
  std::optional<std::pair<Weight, Shape>> Filter(int i, size_t k, size_t rank) {
    if (k >= graph_.inputs(i).size()) return std::nullopt;
    const TensorRef input = graph_.Input(i, k);
    const Tensor* const constant = Constant(i, k);
    const Shape* shape = nullptr;
    Shape of_constant;
    if (constant && ToDataType(constant->dtype())) {
      for (int d = 0; d < constant->dims(); ++d) {
        of_constant.push_back(constant->dim_size(d));
      }
      shape = &of_constant;
    } else if (!constant && graph_.variable(input.node)) {
      shape = graph_.shape(input);
    }
    if (!shape || shape->size() != rank || NumElements(*shape) == 0) {
      return std::nullopt;
    }
    return std::make_pair(constant ? Weight(Floats(*constant)) : Weight(input),
                          *shape);
  }
  // The only node that reads the tensor, or -1.
  int OnlyConsumer(TensorRef tensor) {
    const std::vector<int>& consumers = graph_.Consumers(tensor);
    return consumers.size() == 1 && !graph_.preserved(tensor.node)
               ? consumers[0]
               : -1;
  }

  ImportedOperator Make(int i, OperatorType type,
                        std::vector<TensorRef> inputs) {
    ImportedOperator result;
    result.op.name = OperatorName(graph_, i);
    result.op.type = type;
    result.dtype = dtype_;
    result.inputs = std::move(inputs);
    result.output = {i, 0};
    result.nodes = {i};
    return result;
  }
  Result Emit(ImportedOperator op) {
    operators_.push_back(std::move(op));
    return absl::OkStatus();
  }
  Result EmitScale(int i, TensorRef x, std::vector<float> scale,
                   std::vector<float> shift) {
    ImportedOperator op = Make(i, OperatorType::kScale, {x});
    op.weights = {std::move(scale), std::move(shift)};
    return Emit(std::move(op));
  }

  // Height and width of a list of four, [1, h, w, 1].
  bool Spatial(const std::vector<int64_t>& of_dimensions,
               std::array<int64_t, 2>* result) const {
    const std::vector<int64_t> list = Logical(of_dimensions);
    if (list.size() != 4 || list[0] != 1 || list[3] != 1) return false;
    *result = {list[1], list[2]};
    return true;
  }
  // Of a convolution.
  Result ReadSteps(const NodeDef& node, Operator* op) const {
    if (!Spatial(Attr<std::vector<int64_t>>(node, "strides", {}),
                 &op->strides) ||
        !Spatial(Attr<std::vector<int64_t>>(node, "dilations", {1, 1, 1, 1}),
                 &op->dilations)) {
      return Refuse("its strides or dilations are not of height and width");
    }
    return absl::OkStatus();
  }
  Result ReadPadding(const NodeDef& node, Padding* padding) {
    const std::string type = Attr<std::string>(node, "padding", "");
    if (type == "SAME") {
      padding->type = PaddingType::kSame;
    } else if (type == "VALID") {
      padding->type = PaddingType::kValid;
    } else {
      const auto pads =
          Logical(Attr<std::vector<int64_t>>(node, "explicit_paddings", {}), 2);
      if (pads.size() != 8 || pads[0] || pads[1] || pads[6] || pads[7]) {
        return Refuse("its explicit padding is not of height and width");
      }
      *padding = {PaddingType::kExplicit, pads[2], pads[3], pads[4], pads[5]};
    }
    return absl::OkStatus();
  }

  // What the remapper has fused into a _FusedConv2D or _FusedMatMul; arguments
  // start at data input 2.
  Result ReadFusedOps(int i, ImportedOperator* op) {
    const NodeDef& node = graph_.node(i);
    auto fused = Attr<std::vector<std::string>>(node, "fused_ops", {});
    size_t next = 0;
    if (next < fused.size() && fused[next] == "BiasAdd") {
      const Tensor* bias = Constant(i, 2);
      if (!bias || !ToDataType(bias->dtype()) ||
          bias->NumElements() != op->op.filters) {
        return Refuse("its bias is no constant");
      }
      op->op.bias = true;
      op->weights.push_back(Floats(*bias));
      ++next;
    }
    if (next < fused.size() && ActivationOf(fused[next], node)) {
      op->op.activation = *ActivationOf(fused[next], node);
      ++next;
    }
    if (next < fused.size()) {
      return Refuse(absl::StrCat("it is fused with ", fused[next]));
    }
    return absl::OkStatus();
  }

  Result Convolution(int i) {
    const NodeDef& node = graph_.node(i);
    const bool depthwise = node.op().find("Depthwise") != std::string::npos;
    if (!InputShape(i, 0, {4})) {
      return Refuse("its input is no image of known size");
    }
    auto filter = Filter(i, 1, 4);
    if (!filter) return Refuse("its filter is no constant");
    ImportedOperator op = Make(i, OperatorType::kConv2D, {graph_.Input(i, 0)});
    const int64_t channels = graph_.shape(op.inputs[0])->back();
    const Shape& shape = filter->second;
    op.op.kernel = {shape[0], shape[1]};
    if (depthwise) {
      op.op.groups = channels;
      op.op.filters = channels * shape[3];
    } else {
      op.op.filters = shape[3];
      if (channels % shape[2] != 0) {
        return Refuse("its filter does not fit its input");
      }
      op.op.groups = channels / shape[2];
    }
    TF_RETURN_IF_ERROR(ReadSteps(node, &op.op));
    TF_RETURN_IF_ERROR(ReadPadding(node, &op.op.padding));
    op.weights = {std::move(filter->first)};
    TF_RETURN_IF_ERROR(ReadFusedOps(i, &op));
    ReadSpaceToBatch(&op);
    return Emit(std::move(op));
  }

  Result TransposedConvolution(int i) {
    const NodeDef& node = graph_.node(i);
    auto filter = Filter(i, 1, 4);
    const Shape* x = InputShape(i, 2, {4});
    if (!x) return Refuse("its input is no image of known size");
    if (!filter) return Refuse("its filter is no constant");
    // [kh, kw, outputs, inputs].
    const Shape& shape = filter->second;
    if (shape[3] != x->back()) {
      return Refuse("its filter does not fit its input");
    }
    ImportedOperator op =
        Make(i, OperatorType::kConv2DTranspose, {graph_.Input(i, 2)});
    op.op.kernel = {shape[0], shape[1]};
    op.op.filters = shape[2];
    TF_RETURN_IF_ERROR(ReadSteps(node, &op.op));
    TF_RETURN_IF_ERROR(ReadPadding(node, &op.op.padding));
    // All four dimensions, or height and width.
    SizeExpressions sizes = ReadSizes(&graph_, graph_.Input(i, 0));
    if (sizes.size() == 4) {
      sizes = layout_ == Layout::kChannelsFirst
                  ? SizeExpressions{sizes[2], sizes[3]}
                  : SizeExpressions{sizes[1], sizes[2]};
    }
    TF_RETURN_IF_ERROR(ReadTransposedSize(i, sizes, &op));
    filter->first.Swap({shape[0] * shape[1], shape[2], shape[3], 1});
    op.weights = {std::move(filter->first)};
    return Emit(std::move(op));
  }

  // How much of the windows is cut off, which makes the output as large as
  // `sizes` say for every size of the input; or the tensor that the output is
  // as large as.
  Result ReadTransposedSize(int i, const SizeExpressions& sizes,
                            ImportedOperator* imported) {
    Operator& op = imported->op;
    const TensorRef x = imported->inputs[0];
    const Shape &in = *graph_.shape(x), *out = graph_.shape({i, 0});
    const Padding given = op.padding;
    std::array<int64_t, 4> cut;
    for (int k : {0, 1}) {
      const auto size =
          k < static_cast<int>(sizes.size()) ? sizes[k] : std::nullopt;
      const int64_t window = (op.kernel[k] - 1) * op.dilations[k] + 1;
      int64_t total;  // of full windows, less the output
      if (size && size->factor == op.strides[k] &&
          size->tensor == SizesFrom(graph_, x) && size->axis == 1 + k) {
        total = window - op.strides[k] - size->offset;
      } else if (out && out->size() == 4 && graph_.fixed(x, 1 + k) &&
                 graph_.fixed({i, 0}, 1 + k)) {
        total = (in[1 + k] - 1) * op.strides[k] + window - (*out)[1 + k];
      } else {
        return ReadReference(sizes, imported);
      }
      cut[2 * k] = 0;
      if (given.type == PaddingType::kSame) {
        cut[2 * k] = std::max<int64_t>(total, 0) / 2;
      } else if (given.type == PaddingType::kExplicit) {
        cut[2 * k] = k == 0 ? given.top : given.left;
      }
      cut[2 * k + 1] = total - cut[2 * k];
    }
    op.padding = {PaddingType::kExplicit, cut[0], cut[1], cut[2], cut[3]};
    return absl::OkStatus();
  }
  Result ReadReference(const SizeExpressions& sizes, ImportedOperator* op) {
    if (sizes.size() != 2 || !sizes[0] || !sizes[1] ||
        op->op.padding.type == PaddingType::kExplicit) {
      return Refuse("its size depends on that of the graph's inputs");
    }
    const TensorRef like = sizes[0]->tensor;
    const Shape* shape = sizes[0]->constant() ? nullptr : graph_.shape(like);
    for (int k : {0, 1}) {
      if (sizes[k]->factor != 1 || sizes[k]->offset != 0 ||
          sizes[k]->tensor != like || sizes[k]->axis != 1 + k) {
        return Refuse("its size depends on that of the graph's inputs");
      }
    }
    if (!shape || shape->size() != 4 ||
        graph_.dtype(like) != graph_.dtype(op->inputs[0])) {
      return Refuse("its size is that of another kind of tensor");
    }
    op->op.like = true;
    op->inputs.push_back(like);
    return absl::OkStatus();
  }

  // tf.nn.convolution writes a dilated convolution as a plain one between
  // SpaceToBatchND and BatchToSpaceND: takes all three into `op`.
  void ReadSpaceToBatch(ImportedOperator* op) {
    const int conv = op->output.node;
    TensorRef from = op->inputs[0], to = op->output;
    std::vector<int> nodes = {conv};
    // A sequence becomes an image in between.
    const int expands = from.node, squeezes = OnlyConsumer(to);
    if (graph_.node(expands).op() == "ExpandDims" && squeezes >= 0 &&
        graph_.node(squeezes).op() == "Squeeze" && OnlyConsumer(from) == conv &&
        graph_.same_shape(graph_.Input(expands, 0), from) &&
        graph_.same_shape(to, {squeezes, 0})) {
      nodes.insert(nodes.end(), {expands, squeezes});
      from = graph_.Input(expands, 0);
      to = {squeezes, 0};
    }
    const size_t dims = nodes.size() == 1 ? 2 : 1;
    const int before = from.node, after = OnlyConsumer(to);
    if (layout_ != Layout::kChannelsLast ||
        graph_.node(before).op() != "SpaceToBatchND" || after < 0 ||
        graph_.node(after).op() != "BatchToSpaceND" ||
        OnlyConsumer(from) != (dims == 1 ? expands : conv) ||
        !InputShape(before, 0, {4}) || graph_.Input(after, 0) != to ||
        op->op.bias || op->op.activation != Activation::kNone ||
        op->op.padding.type != PaddingType::kValid ||
        op->op.strides != std::array<int64_t, 2>{1, 1} ||
        op->op.dilations != std::array<int64_t, 2>{1, 1}) {
      return;
    }
    const auto block = Integers(Constant(before, 1));
    const auto block_after = Integers(Constant(after, 1));
    if (!block || block->size() != dims || block != block_after) return;
    // What is added so that there are whole blocks, and depends on the size, is
    // cut off again.
    std::array<int64_t, 4> padding = {};
    for (int probe = 0; probe < graph_.required_probes(); ++probe) {
      const auto* pads = graph_.integers(graph_.inputs(before)[2], probe);
      const auto* crops = graph_.integers(graph_.inputs(after)[2], probe);
      if (!pads || !crops || pads->size() != 2 * dims ||
          crops->size() != 2 * dims) {
        return;
      }
      for (size_t k = 0; k < 2 * dims; ++k) {
        int64_t& cells = padding[4 - 2 * dims + k];
        const int64_t here = (*pads)[k] - (*crops)[k];
        if (here < 0 || (probe > 0 && here != cells)) return;
        cells = here;
      }
    }
    op->op.dilations = {dims == 1 ? 1 : (*block)[0], block->back()};
    op->op.padding = {PaddingType::kExplicit, padding[0], padding[1],
                      padding[2], padding[3]};
    op->inputs = {graph_.Input(before, 0)};
    op->output = {after, 0};
    nodes.insert(nodes.end(), {before, after});
    op->nodes = std::move(nodes);
  }

  Result MatMul(int i) {
    const NodeDef& node = graph_.node(i);
    auto weight = Filter(i, 1, 2);
    if (!InputShape(i, 0, {2}) || Attr<bool>(node, "transpose_a", false) ||
        !weight) {
      return Refuse("it does not multiply [N,C] by a constant matrix");
    }
    ImportedOperator op = Make(i, OperatorType::kMatMul, {graph_.Input(i, 0)});
    const bool transposed = Attr<bool>(node, "transpose_b", false);
    const Shape& shape = weight->second;
    if (transposed) weight->first.Swap({1, shape[0], shape[1], 1});
    op.op.filters = shape[transposed ? 0 : 1];
    op.weights = {std::move(weight->first)};
    TF_RETURN_IF_ERROR(ReadFusedOps(i, &op));
    return Emit(std::move(op));
  }

  Result BiasAdd(int i) {
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x) return Refuse("unknown shape");
    auto shift = Channels(Constant(i, 1), *x);
    if (!shift) return Refuse("its bias is no constant");
    return EmitScale(i, graph_.Input(i, 0), std::vector<float>(x->back(), 1.0f),
                     std::move(*shift));
  }

  static std::optional<BinaryFunction> FunctionOf(const std::string& op) {
    static const auto* const kFunctions =
        new std::unordered_map<std::string, BinaryFunction>{
            {"Add", BinaryFunction::kAdd},
            {"AddV2", BinaryFunction::kAdd},
            {"Sub", BinaryFunction::kSubtract},
            {"Mul", BinaryFunction::kMultiply},
            {"RealDiv", BinaryFunction::kDivide},
            {"Maximum", BinaryFunction::kMaximum},
            {"Minimum", BinaryFunction::kMinimum},
            {"SquaredDifference", BinaryFunction::kSquaredDifference},
    };
    const auto it = kFunctions->find(op);
    if (it == kFunctions->end()) return std::nullopt;
    return it->second;
  }

  // The norm that ends with node `add`, a sum of rank `rank`, over these axes.
  std::optional<Normalization> NormOf(int add, size_t rank,
                                      const std::vector<int64_t>& axes) {
    const Shape* shape = graph_.shape({add, 0});
    const std::string& op = graph_.node(add).op();
    if ((op != "AddV2" && op != "Add") || !shape || RankOf(*shape) != rank) {
      return std::nullopt;
    }
    auto norm = MatchNormalization(&graph_, add);
    if (norm && norm->axes != axes) norm.reset();
    return norm;
  }

  Result EmitNorm(TensorRef x, const Normalization& norm, ImportedOperator op) {
    const int64_t channels = graph_.shape(x)->back();
    op.op.epsilon = norm.epsilon;
    op.weights = {std::vector<float>(channels, 1.0f),
                  std::vector<float>(channels, 0.0f)};
    for (int k : {0, 1}) {
      const Tensor* values = k == 0 ? norm.scale : norm.shift;
      if (!values) continue;
      if (!ToDataType(values->dtype()) ||
          (values->NumElements() != channels && values->NumElements() != 1)) {
        return Refuse("its scale and shift are not of channels");
      }
      op.weights[k] = *Repeated(*values, channels);
    }
    op.nodes.insert(op.nodes.end(), norm.nodes.begin(), norm.nodes.end());
    return Emit(std::move(op));
  }

  // The mean and variance of each pixel's channels.
  Result LayerNorm(int i) {
    const Shape* x = graph_.shape({i, 0});
    if (!x || layout_ == Layout::kChannelsFirst) return Refuse("unknown shape");
    const size_t rank = RankOf(*x);
    const auto norm = NormOf(i, rank, {static_cast<int64_t>(rank) - 1});
    if (!norm || !graph_.same_shape(norm->x, {i, 0})) {
      return Refuse("it is no layer norm");
    }
    return EmitNorm(norm->x, *norm,
                    Make(i, OperatorType::kNormalize, {norm->x}));
  }

  // [N,H,W,C], as [N,H,W,groups,C/groups], with the mean and variance of each
  // image's groups, and back by Reshape `i`.
  Result GroupNorm(int i) {
    const int add = graph_.Input(i, 0).node;
    const auto norm = NormOf(add, 5, {1, 2, 4});
    if (!norm || graph_.node(norm->x.node).op() != "Reshape") {
      return Refuse("it is no group norm");
    }
    const TensorRef x = graph_.Input(norm->x.node, 0);
    const Shape* grouped = graph_.shape(norm->x);
    if (!graph_.shape(x) || graph_.shape(x)->size() != 4 ||
        graph_.layout(x) != Layout::kChannelsLast ||
        graph_.layout({i, 0}) != Layout::kChannelsLast ||
        !graph_.same_shape(x, {i, 0}) ||
        !graph_.same_dimensions(x, norm->x, 0, 3) ||
        !graph_.fixed(norm->x, 3)) {
      return Refuse("it changes the order of cells");
    }
    ImportedOperator op = Make(i, OperatorType::kNormalize, {x});
    op.op.whole_images = true;
    op.op.groups = (*grouped)[3];
    op.nodes.push_back(norm->x.node);
    return EmitNorm(x, *norm, std::move(op));
  }

  // [N,H,W,C], as [N,H,W,groups,C/groups], with these two exchanged, and back
  // by Reshape `i`.
  Result ChannelShuffle(int i) {
    const TensorRef turned = graph_.Input(i, 0);
    if (graph_.node(turned.node).op() != "Transpose") {
      return Refuse("it shuffles nothing");
    }
    const TensorRef grouped = graph_.Input(turned.node, 0);
    const auto order = Integers(Constant(turned.node, 1));
    if (!order || graph_.node(grouped.node).op() != "Reshape") {
      return Refuse("it shuffles nothing");
    }
    const TensorRef x = graph_.Input(grouped.node, 0);
    const Shape* shape = graph_.shape(grouped);
    const bool first = graph_.channels_first(x);
    const std::vector<int64_t> wanted =
        first ? std::vector<int64_t>{0, 2, 1, 3, 4}
              : std::vector<int64_t>{0, 1, 2, 4, 3};
    const size_t groups = first ? 1 : 3;
    if (*order != wanted || !shape || shape->size() != 5 || !graph_.shape(x) ||
        graph_.shape(x)->size() != 4 ||
        graph_.layout(x) != graph_.layout({i, 0}) ||
        graph_.layout(x) == Layout::kSequence ||
        !graph_.same_shape(x, {i, 0}) || !graph_.fixed(grouped, groups) ||
        !graph_.fixed(grouped, groups + 1)) {
      return Refuse("it shuffles other dimensions than channels");
    }
    for (int probe = 0; probe < graph_.probes(); ++probe) {
      const Shape *a = graph_.shape(x, probe),
                  *b = graph_.shape(grouped, probe);
      if ((!a || !b) && probe >= graph_.required_probes()) continue;
      if (!a || !b || (*a)[0] != (*b)[0] || (*a)[1] != (*b)[first ? 3 : 1] ||
          (*a)[2] != (*b)[first ? 4 : 2]) {
        return Refuse("it shuffles other dimensions than channels");
      }
    }
    ImportedOperator op = Make(i, OperatorType::kChannelShuffle, {x});
    op.op.groups = (*shape)[groups];
    op.nodes = {grouped.node, turned.node, i};
    return Emit(std::move(op));
  }

  Result Arithmetic(int i) {
    if (LayerNorm(i).ok()) return absl::OkStatus();
    for (int k : {0, 1}) {
      const Shape* x = InputShape(i, 1 - k, {2, 4});
      const Tensor* constant = x ? Constant(i, k) : nullptr;
      if (!constant) continue;
      if (ScaleOf(i, k, *x)) return absl::OkStatus();
      if (const auto bound = BoundOf(i, k, *x)) return Unary(i, *bound, 1 - k);
      return BinaryWithConstant(i, k, *x, *constant);
    }
    const Shape* x = InputShape(i, 0, {2, 4});
    const Shape* y = InputShape(i, 1, {2, 4});
    if (!x || !y || x->size() != y->size()) return Refuse("unknown shape");
    const TensorRef a = graph_.Input(i, 0), b = graph_.Input(i, 1);
    const BinaryFunction function = *FunctionOf(graph_.node(i).op());
    if (function == BinaryFunction::kAdd && graph_.same_shape(a, b)) {
      return Emit(Make(i, OperatorType::kAdd, {a, b}));
    }
    ImportedOperator op = Make(i, OperatorType::kBinary, {a, b});
    op.op.function = function;
    return Emit(std::move(op));
  }

  // Emits the node as a scale, if its constant operand `k` is a number for each
  // channel of x.
  bool ScaleOf(int i, int k, const Shape& x) {
    const BinaryFunction function = *FunctionOf(graph_.node(i).op());
    const auto constant = PerChannel(Constant(i, k), x);
    if (!constant) return false;
    std::vector<float> scale(x.back(), 1.0f), shift(x.back(), 0.0f);
    for (size_t c = 0; c < scale.size(); ++c) {
      const float value = (*constant)[c];
      switch (function) {
        case BinaryFunction::kMultiply:
          scale[c] = value;
          break;
        case BinaryFunction::kDivide:
          // x / 2 is x * 0.5; 2 / x is no scale.
          if (k == 0) return false;
          scale[c] = 1.0f / value;
          break;
        case BinaryFunction::kSubtract:
          scale[c] = k == 0 ? -1.0f : 1.0f;
          shift[c] = k == 0 ? value : -value;
          break;
        case BinaryFunction::kAdd:
          shift[c] = value;
          break;
        default:
          return false;
      }
    }
    return EmitScale(i, graph_.Input(i, 1 - k), std::move(scale),
                     std::move(shift))
        .ok();
  }

  // The node as an activation, if it is the maximum or minimum with a number.
  std::optional<Activation> BoundOf(int i, int k, const Shape& x) {
    const BinaryFunction function = *FunctionOf(graph_.node(i).op());
    const std::optional<float> bound = Scalar(Constant(i, k));
    if (!bound || !std::isfinite(*bound) ||
        Constant(i, k)->dims() > static_cast<int>(RankOf(x))) {
      return std::nullopt;
    }
    if (function == BinaryFunction::kMaximum) {
      return Activation(Activation::kMaximum, *bound);
    }
    if (function == BinaryFunction::kMinimum) {
      return Activation(Activation::kMinimum, *bound);
    }
    return std::nullopt;
  }

  Result BinaryWithConstant(int i, int k, const Shape& x,
                            const Tensor& constant) {
    if (!ToDataType(constant.dtype()) || constant.NumElements() == 0 ||
        constant.dims() > static_cast<int>(RankOf(x))) {
      return Refuse("its constant operand does not fit");
    }
    ImportedOperator op =
        Make(i, OperatorType::kBinary, {graph_.Input(i, 1 - k)});
    op.op.function = *FunctionOf(graph_.node(i).op());
    op.op.swapped = k == 0;
    Shape shape(RankOf(x) - constant.dims(), 1);
    for (int d = 0; d < constant.dims(); ++d) {
      shape.push_back(constant.dim_size(d));
    }
    std::vector<float> values = Floats(constant);
    if (layout_ == Layout::kChannelsFirst && shape.size() == 4) {
      const std::vector<float> first = std::move(values);
      values.clear();
      const int64_t cells = shape[2] * shape[3];
      for (int64_t n = 0; n < shape[0]; ++n) {
        for (int64_t cell = 0; cell < cells; ++cell) {
          for (int64_t c = 0; c < shape[1]; ++c) {
            values.push_back(first[(n * shape[1] + c) * cells + cell]);
          }
        }
      }
    }
    op.op.operand = Logical(shape, 1, 1);
    op.weights = {std::move(values)};
    return Emit(std::move(op));
  }

  Result AddN(int i) {
    const size_t inputs = graph_.inputs(i).size();
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x || inputs < 2) return Refuse("unknown shape");
    std::vector<TensorRef> tensors;
    for (size_t k = 0; k < inputs; ++k) {
      if (!InputShape(i, k, {2, 4}) ||
          !graph_.same_shape(graph_.Input(i, k), graph_.Input(i, 0))) {
        return Refuse("unknown shape");
      }
      tensors.push_back(graph_.Input(i, k));
    }
    return Emit(Make(i, OperatorType::kAdd, std::move(tensors)));
  }

  Result BatchNorm(int i) {
    const NodeDef& node = graph_.node(i);
    const Shape* x = InputShape(i, 0, {4});
    if (!x || Attr<bool>(node, "is_training", true)) {
      return Refuse("it is no batch norm of images in inference");
    }
    for (int port = 1; port < 6; ++port) {
      if (!graph_.Consumers({i, port}).empty()) {
        return Refuse("its statistics are read");
      }
    }
    if (graph_.preserved(i)) return Refuse("its statistics may be read");
    std::array<std::vector<float>, 4> values;  // gamma, beta, mean, variance
    for (int k = 0; k < 4; ++k) {
      auto value = Channels(Constant(i, k + 1), *x);
      if (!value) return Refuse("its statistics are no constants");
      values[k] = std::move(*value);
    }
    const float epsilon = Attr<float>(node, "epsilon", 1e-4f);
    std::vector<float> scale(x->back()), shift(x->back());
    for (size_t c = 0; c < scale.size(); ++c) {
      const double s =
          values[0][c] / std::sqrt(static_cast<double>(values[3][c]) + epsilon);
      scale[c] = s;
      shift[c] = values[1][c] - s * values[2][c];
    }
    return EmitScale(i, graph_.Input(i, 0), std::move(scale), std::move(shift));
  }

  // An activation of input k.
  Result Unary(int i, const Activation& activation, size_t k = 0) {
    if (!InputShape(i, k, {2, 4})) return Refuse("unknown shape");
    // The same activation of the same tensor, computed once: NASNet has five.
    const NodeDef& node = graph_.node(i);
    const auto key = std::make_pair(activation, graph_.Input(i, k));
    const auto known = unary_.find(key);
    if (known != unary_.end() && !graph_.preserved(i) && !graph_.waits(i) &&
        graph_.node(known->second).device() == node.device()) {
      graph_.Alias(i, {known->second, 0});
      return absl::OkStatus();
    }
    unary_.emplace(key, i);
    ImportedOperator op =
        Make(i, OperatorType::kActivation, {graph_.Input(i, k)});
    op.op.activation = activation;
    return Emit(std::move(op));
  }

  Result Negative(int i) {
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x) return Refuse("unknown shape");
    return EmitScale(i, graph_.Input(i, 0),
                     std::vector<float>(x->back(), -1.0f),
                     std::vector<float>(x->back(), 0.0f));
  }

  Result Power(int i) {
    const std::optional<float> exponent = Scalar(Constant(i, 1));
    if (!exponent) return Refuse("its exponent is no constant number");
    if (*exponent == 2.0f) return Unary(i, Activation::kSquare);
    for (float known : {3.0f, 4.0f, -1.0f, -2.0f, -3.0f, -4.0f, 0.5f, -0.5f}) {
      if (*exponent == known) return Unary(i, {Activation::kPow, known});
    }
    return Refuse("its exponent is none that the engine knows");
  }

  Result Clip(int i) {
    const auto low = Scalar(Constant(i, 1)), high = Scalar(Constant(i, 2));
    if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high)) {
      return Refuse("its bounds are no constant numbers");
    }
    return Unary(i, {Activation::kClip, *low, *high});
  }

  // x where x > number, else 0: a Relu with a threshold.
  Result Threshold(int i) {
    const TensorRef condition = graph_.Input(i, 0), x = graph_.Input(i, 1);
    const std::optional<float> otherwise = Scalar(Constant(i, 2));
    const int greater = condition.node;
    if (graph_.node(greater).op() != "Greater" ||
        graph_.Input(greater, 0) != x || OnlyConsumer(condition) != i ||
        otherwise != 0.0f) {
      return Refuse("it is no threshold");
    }
    const std::optional<float> threshold = Scalar(Constant(greater, 1));
    if (!threshold || !std::isfinite(*threshold) ||
        Constant(greater, 1)->dims() > 0 || Constant(i, 2)->dims() > 0 ||
        !graph_.controls(greater).empty()) {
      return Refuse("its threshold is no constant number");
    }
    if (!InputShape(i, 1, {2, 4})) return Refuse("unknown shape");
    ImportedOperator op = Make(i, OperatorType::kActivation, {x});
    op.op.activation = {Activation::kThreshold, *threshold};
    op.nodes.push_back(greater);
    return Emit(std::move(op));
  }

  // Of tensors as large as what is compared, and of numbers: fusion.cc looks
  // what it is a part of.
  Result Select(int i) {
    if (Threshold(i).ok()) return absl::OkStatus();
    const int compares = graph_.Input(i, 0).node;
    const TensorRef x = graph_.Input(compares, 0), y = {i, 0};
    Selection selection;
    selection.compares = graph_.node(compares).op();
    const std::optional<float> than = Scalar(Constant(compares, 1));
    if (!selection.IsKnown() || !than || OnlyConsumer({compares, 0}) != i ||
        !graph_.controls(compares).empty() || !InputShape(i, 1, {2, 4}) ||
        graph_.dtype(x) != graph_.dtype(y) || !graph_.same_shape(x, y)) {
      return Refuse("it selects by no comparison with a number");
    }
    selection.than = *than;
    ImportedOperator op = Make(i, OperatorType::kActivation, {x});
    op.kind = ImportedOperator::Kind::kSelect;
    op.nodes.push_back(compares);
    for (const auto& [k, number] :
         {std::pair(1, &selection.first), std::pair(2, &selection.second)}) {
      const TensorRef value = graph_.Input(i, k);
      *number = Scalar(Constant(i, k));
      if (graph_.node(value.node).op() == "ZerosLike" &&
          OnlyConsumer(value) == i && graph_.controls(value.node).empty()) {
        *number = 0.0f;
        op.nodes.push_back(value.node);
      }
      if (*number) continue;
      if (!graph_.same_shape(value, y)) {
        return Refuse("it selects from tensors of several shapes");
      }
      op.inputs.push_back(value);
    }
    op.selection = selection;
    return Emit(std::move(op));
  }

  Result Pool(int i) {
    const NodeDef& node = graph_.node(i);
    if (!InputShape(i, 0, {4})) return Refuse("unknown shape");
    ImportedOperator op = Make(i, OperatorType::kPool, {graph_.Input(i, 0)});
    op.op.pool = node.op() == "MaxPool" ? PoolKind::kMax : PoolKind::kAvg;
    if (!Spatial(Attr<std::vector<int64_t>>(node, "ksize", {}),
                 &op.op.kernel) ||
        !Spatial(Attr<std::vector<int64_t>>(node, "strides", {}),
                 &op.op.strides)) {
      return Refuse("it pools batch or channels");
    }
    TF_RETURN_IF_ERROR(ReadPadding(node, &op.op.padding));
    const Padding& p = op.op.padding;
    if (std::max(p.top, p.bottom) >= op.op.kernel[0] ||
        std::max(p.left, p.right) >= op.op.kernel[1]) {
      return Refuse("TensorFlow refuses its padding");
    }
    return Emit(std::move(op));
  }

  Result Reduce(int i) {
    const NodeDef& node = graph_.node(i);
    auto axes = Integers(Constant(i, 1));
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x || !axes) return Refuse("unknown shape");
    for (int64_t& axis : *axes) axis = LogicalAxis(axis, *x);
    // The height of a sequence is 1.
    if (layout_ == Layout::kSequence && *axes == std::vector<int64_t>{2}) {
      axes->push_back(1);
    }
    std::sort(axes->begin(), axes->end());
    const bool keeps = Attr<bool>(node, "keep_dims", false);
    const bool channels =
        *axes == std::vector<int64_t>{static_cast<int64_t>(x->size()) - 1};
    if (channels ? !keeps : *axes != std::vector<int64_t>{1, 2}) {
      return Refuse("it reduces other dimensions than height and width");
    }
    ImportedOperator op =
        Make(i, channels ? OperatorType::kReduce : OperatorType::kGlobalPool,
             {graph_.Input(i, 0)});
    op.op.pool = node.op() == "Max"    ? PoolKind::kMax
                 : node.op() == "Mean" ? PoolKind::kAvg
                                       : PoolKind::kSum;
    op.op.keep_dims = keeps && !channels;
    return Emit(std::move(op));
  }

  Result Concat(int i) {
    const int n = static_cast<int>(graph_.inputs(i).size()) - 1;
    const auto axis = Integers(Constant(i, n));
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x || !axis || axis->size() != 1) return Refuse("unknown shape");
    if (LogicalAxis((*axis)[0], *x) + 1 != static_cast<int64_t>(x->size())) {
      return Refuse("it does not concatenate channels");
    }
    std::vector<TensorRef> tensors;
    for (int k = 0; k < n; ++k) {
      if (!InputShape(i, k, {x->size()})) return Refuse("unknown shape");
      tensors.push_back(graph_.Input(i, k));
    }
    return Emit(Make(i, OperatorType::kConcat, std::move(tensors)));
  }

  Result Softmax(int i) {
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x || (layout_ == Layout::kChannelsFirst && x->size() == 4)) {
      return Refuse("it is not over channels");
    }
    return Emit(Make(i, OperatorType::kSoftmax, {graph_.Input(i, 0)}));
  }

  Result Pad(int i) {
    const auto of_dimensions = Integers(Constant(i, 1));
    if (!InputShape(i, 0, {4}) || !of_dimensions)
      return Refuse("unknown shape");
    const std::vector<int64_t> pads = Logical(*of_dimensions, 2);
    if (pads.size() != 8 || pads[0] || pads[1]) {
      return Refuse("it pads the batch");
    }
    ImportedOperator op = Make(i, OperatorType::kPad, {graph_.Input(i, 0)});
    if (graph_.node(i).op() == "MirrorPad") {
      const bool reflect =
          Attr<std::string>(graph_.node(i), "mode", "") == "REFLECT";
      if (pads[6] || pads[7]) return Refuse("it mirrors channels");
      op.op.pad_mode = reflect ? PadMode::kReflect : PadMode::kSymmetric;
    } else if (graph_.inputs(i).size() > 2) {
      const Tensor* value = Constant(i, 2);
      if (!value || !ToDataType(value->dtype()) || value->NumElements() != 1 ||
          !std::isfinite(Floats(*value)[0])) {
        return Refuse("it pads with no finite constant");
      }
      op.op.pad_value = Floats(*value)[0];
    }
    op.op.channel_padding = {pads[6], pads[7]};
    op.op.padding = {PaddingType::kExplicit, pads[2], pads[3], pads[4],
                     pads[5]};
    return Emit(std::move(op));
  }

  Result Split(int i) {
    // Split: axis, value. SplitV: value, sizes, axis.
    const bool v = graph_.node(i).op() == "SplitV";
    const auto axis = Integers(Constant(i, v ? 2 : 0));
    const Shape* x = InputShape(i, v ? 0 : 1, {2, 4});
    if (!x || !axis || axis->size() != 1 || graph_.preserved(i)) {
      return Refuse("unknown shape");
    }
    if (LogicalAxis((*axis)[0], *x) + 1 != static_cast<int64_t>(x->size())) {
      return Refuse("it does not split channels");
    }
    const int parts = Attr<int64_t>(graph_.node(i), "num_split", 0);
    int64_t offset = 0;
    for (int port = 0; port < parts; ++port) {
      const Shape* y = graph_.shape({i, port});
      if (!y) return Refuse("unknown shape");
      if (!graph_.Consumers({i, port}).empty()) {
        EmitSlice(i, port, graph_.Input(i, v ? 0 : 1), offset, y->back());
      }
      offset += y->back();
    }
    return absl::OkStatus();
  }

  void EmitSlice(int i, int port, TensorRef x, int64_t offset, int64_t size) {
    ImportedOperator op = Make(i, OperatorType::kSlice, {x});
    if (port > 0) absl::StrAppend(&op.op.name, ":", port);
    op.output = {i, port};
    op.op.offset = offset;
    op.op.size = size;
    operators_.push_back(std::move(op));
  }

  Result Slice(int i) {
    const Shape* x = InputShape(i, 0, {2, 4});
    const auto begin = Integers(Constant(i, 1));
    if (!x || !begin || begin->size() != RankOf(*x)) {
      return Refuse("unknown shape");
    }
    return EmitRange(i, *begin);
  }

  Result StridedSlice(int i) {
    const NodeDef& node = graph_.node(i);
    const Shape* x = InputShape(i, 0, {2, 4});
    const auto spec = Integers(Constant(i, 1));
    const auto strides = Integers(Constant(i, 3));
    if (!x || !spec || !strides || strides->size() != spec->size()) {
      return Refuse("unknown slice");
    }
    if (ChangesRank(node)) {
      if (std::count(strides->begin(), strides->end(), 1) !=
          static_cast<int64_t>(strides->size())) {
        return Refuse("it has strides");
      }
      return Reshape(i);  // which refuses what leaves out elements
    }
    const int64_t mask = Attr<int64_t>(node, "begin_mask", 0);
    const int64_t ellipsis = Attr<int64_t>(node, "ellipsis_mask", 0);
    // The specification may leave dimensions out: those of the ellipsis, or the
    // last ones.
    const size_t rank = RankOf(*x);
    std::vector<int64_t> begin(rank, 0);
    size_t d = 0;
    for (size_t k = 0; k < spec->size(); ++k, ++d) {
      if (ellipsis >> k & 1) {
        d += rank - spec->size();
        continue;
      }
      if (d >= rank || (*strides)[k] != 1) return Refuse("it has strides");
      if (!(mask >> k & 1)) begin[d] = (*spec)[k];
    }
    return EmitRange(i, begin);
  }

  // Data input 0 from `begin` on, of each dimension as the graph orders them
  // and from the end if negative, as far as the node's shape goes: a range of
  // channels, or cells cut from the borders of height and width, by the same
  // numbers for every size of the graph's inputs.
  Result EmitRange(int i, const std::vector<int64_t>& begin) {
    const TensorRef input = graph_.Input(i, 0), output = {i, 0};
    std::vector<std::array<int64_t, 2>> cut;  // of each dimension, both ends
    for (int probe = 0; probe < graph_.probes(); ++probe) {
      const Shape *x = graph_.shape(input, probe),
                  *y = graph_.shape(output, probe);
      if ((!x || !y) && probe >= graph_.required_probes()) continue;
      if (!x || !y || x->size() != y->size()) return Refuse("unknown shape");
      // Small sizes may leave nothing, of which no cells are missing.
      if (probe >= graph_.required_probes() && NumElements(*y) == 0) continue;
      const std::vector<int64_t> first = Logical(begin);
      std::vector<std::array<int64_t, 2>> here;
      for (size_t d = 0; d < x->size(); ++d) {
        const int64_t size = (*x)[d];
        const int64_t from = std::clamp<int64_t>(
            first[d] < 0 ? first[d] + size : first[d], 0, size);
        here.push_back({from, size - from - (*y)[d]});
      }
      if (probe == 0) cut = here;
      if (here != cut)
        return Refuse("what it cuts depends on the input's size");
    }
    const Shape& y = *graph_.shape(output);
    const std::array<int64_t, 2> nothing = {0, 0};
    const size_t last = cut.size() - 1;
    if (std::find(y.begin(), y.end(), 0) != y.end() || cut[0] != nothing) {
      return Refuse("it cuts the batch");
    }
    if (cut.size() == 2 || (cut[1] == nothing && cut[2] == nothing)) {
      EmitSlice(i, 0, input, cut[last][0], y[last]);
      return absl::OkStatus();
    }
    if (cut[3] != nothing) {
      return Refuse("it cuts channels and other dimensions");
    }
    ImportedOperator op = Make(i, OperatorType::kPad, {input});
    op.op.padding = {PaddingType::kExplicit, -cut[1][0], -cut[1][1], -cut[2][0],
                     -cut[2][1]};
    return Emit(std::move(op));
  }

  // The output's height and width as its shape operand says, for every size of
  // the input: op's first one, of the shape `x`.
  Result ReadOutputSize(int i, const SizeExpressions& sizes,
                        ImportedOperator* op) {
    const TensorRef x = SizesFrom(graph_, op->inputs[0]);
    std::optional<TensorRef> like;
    for (int k = 0; k < 2; ++k) {
      const bool known = k < static_cast<int>(sizes.size()) && sizes[k];
      const SizeExpression size = known ? *sizes[k] : SizeExpression();
      const Shape* y = graph_.shape({i, 0});
      if (known && size.constant()) {
        op->op.output_size[k] = size.offset;
      } else if (known && size.offset == 0 && size.factor > 0 &&
                 size.axis == 1 + k &&
                 (k == 0 || size.tensor == like.value_or(x))) {
        op->op.factors[k] = size.factor;
        if (size.tensor != x) like = size.tensor;
      } else if (y && y->size() == 4 && graph_.fixed({i, 0}, 1 + k)) {
        op->op.output_size[k] = (*y)[1 + k];
      } else {
        return Refuse("its size depends on that of the graph's inputs");
      }
    }
    if (!like) return absl::OkStatus();
    const Shape* shape = graph_.shape(*like);
    if (op->op.output_size != std::array<int64_t, 2>{0, 0} || !shape ||
        shape->size() != 4 || graph_.dtype(*like) != graph_.dtype(x)) {
      return Refuse("its size is that of another kind of tensor");
    }
    op->op.like = true;
    op->inputs.push_back(*like);
    return absl::OkStatus();
  }

  Result Resize(int i) {
    const NodeDef& node = graph_.node(i);
    const Shape* shape = graph_.shape(graph_.Input(i, 0));
    if (!shape || shape->size() != 4) return Refuse("unknown shape");
    ImportedOperator op = Make(i, OperatorType::kResize, {graph_.Input(i, 0)});
    // TensorFlow gives float32 for any type; Keras casts that back.
    const auto type = ToDataType(graph_.dtype(op.inputs[0]));
    if (type != dtype_) {
      const int cast = OnlyConsumer(op.output);
      if (!type || cast < 0 || graph_.node(cast).op() != "Cast" ||
          graph_.dtype({cast, 0}) != graph_.dtype(op.inputs[0])) {
        return Refuse("it changes the type");
      }
      TF_RETURN_IF_ERROR(CheckDtype(*type));
      op.dtype = *type;
      op.output = {cast, 0};
      op.nodes.push_back(cast);
    }
    op.op.interpolation = node.op() == "ResizeBilinear"
                              ? Interpolation::kBilinear
                              : Interpolation::kNearest;
    const bool half_pixel = Attr<bool>(node, "half_pixel_centers", false);
    const bool align = Attr<bool>(node, "align_corners", false);
    if (half_pixel && align) return Refuse("its corners and centers conflict");
    if (half_pixel) op.op.coordinates = Coordinates::kHalfPixel;
    if (align) op.op.coordinates = Coordinates::kAlignCorners;
    TF_RETURN_IF_ERROR(
        ReadOutputSize(i, ReadSizes(&graph_, graph_.Input(i, 1)), &op));
    return Emit(std::move(op));
  }

  Result MoveDepth(int i) {
    const NodeDef& node = graph_.node(i);
    // A block's cells are the outer part of the channels in both orders.
    if (!InputShape(i, 0, {4}) ||
        Attr<std::string>(node, "data_format", "NHWC") == "NCHW_VECT_C") {
      return Refuse("unknown shape");
    }
    ImportedOperator op =
        Make(i,
             node.op() == "DepthToSpace" ? OperatorType::kDepthToSpace
                                         : OperatorType::kSpaceToDepth,
             {graph_.Input(i, 0)});
    op.op.block_size = Attr<int64_t>(node, "block_size", 0);
    return Emit(std::move(op));
  }

  Result Lrn(int i) {
    const NodeDef& node = graph_.node(i);
    if (!InputShape(i, 0, {4})) return Refuse("unknown shape");
    ImportedOperator op = Make(i, OperatorType::kLrn, {graph_.Input(i, 0)});
    op.op.depth_radius = Attr<int64_t>(node, "depth_radius", 5);
    op.op.normalization = {Attr<float>(node, "bias", 1.0f),
                           Attr<float>(node, "alpha", 1.0f),
                           Attr<float>(node, "beta", 0.5f)};
    return Emit(std::move(op));
  }

  // tf.repeat along height or width, as which Keras writes UpSampling2D:
  // ExpandDims behind that dimension, Tile along the new one, Reshape to an
  // image again.
  Result Repeat(int i) {
    const TensorRef expanded = graph_.Input(i, 0);
    const int before = expanded.node, after = OnlyConsumer({i, 0});
    if (graph_.node(before).op() != "ExpandDims" || after < 0 ||
        graph_.node(after).op() != "Reshape" ||
        graph_.Input(after, 0) != TensorRef{i, 0} ||
        OnlyConsumer(expanded) != i || !InputShape(before, 0, {4})) {
      return Refuse("it repeats more than cells");
    }
    const TensorRef x = graph_.Input(before, 0);
    auto axis = Integers(Constant(before, 1));
    const auto multiples = Integers(Constant(i, 1));
    SizeExpressions wanted = SizesOf(&graph_, x);
    const SizeExpressions sizes = ReadSizes(&graph_, graph_.Input(after, 1));
    const int64_t rank = wanted.size();
    if (!axis || axis->size() != 1 || !multiples || rank < 3 ||
        static_cast<int64_t>(multiples->size()) != rank + 1 ||
        static_cast<int64_t>(sizes.size()) != rank ||
        graph_.layout(x) != graph_.layout({after, 0})) {
      return Refuse("unknown shape");
    }
    if ((*axis)[0] < 0) (*axis)[0] += rank + 1;
    const int64_t repeated = (*axis)[0] - 1;
    int64_t times = 1;
    for (int64_t d = 0; d <= rank; ++d) {
      if (d == (*axis)[0]) {
        times = (*multiples)[d];
      } else if ((*multiples)[d] != 1) {
        return Refuse("it repeats more than cells");
      }
    }
    layout_ = graph_.layout(x);
    const int64_t dimension = LogicalAxis(repeated, *graph_.shape(x));
    if (repeated < 0 || times < 1 || (dimension != 1 && dimension != 2)) {
      return Refuse("it repeats other dimensions than height and width");
    }
    for (int64_t d = 0; d < rank; ++d) {
      if (d == repeated) {
        wanted[d]->factor *= times;
        wanted[d]->offset *= times;
      }
      const bool inferred =
          sizes[d] && sizes[d]->constant() && sizes[d]->offset == -1;
      if (!inferred && !(sizes[d] == wanted[d])) {
        return Refuse("its result is no image");
      }
    }
    ImportedOperator op = Make(i, OperatorType::kResize, {x});
    op.op.coordinates = Coordinates::kHalfPixel;
    op.op.factors[dimension - 1] = times;
    op.output = {after, 0};
    op.nodes = {before, i, after};
    return Emit(std::move(op));
  }

  Result Transpose(int i) {
    const TensorRef x = graph_.Input(i, 0), y = {i, 0};
    const Layout from = graph_.layout(x), to = graph_.layout(y);
    const Permutation permutation = PermutationOf(&graph_, i);
    // Keras writes one that changes nothing in front of every Dense of maps.
    if (permutation == Permutation::kNone && from == to &&
        !graph_.preserved(i) && !graph_.waits(i)) {
      graph_.Alias(i, x);
      return absl::OkStatus();
    }
    const Shape* shape = graph_.shape(x);
    if (!shape || shape->size() != 4 ||
        !((permutation == Permutation::kToChannelsFirst &&
           from == Layout::kChannelsLast && to == Layout::kChannelsFirst) ||
          (permutation == Permutation::kToChannelsLast &&
           from == Layout::kChannelsFirst && to == Layout::kChannelsLast))) {
      return Refuse("it permutes dimensions");
    }
    ImportedOperator op = Make(i, OperatorType::kActivation, {x});
    op.kind = ImportedOperator::Kind::kLayout;
    return Emit(std::move(op));
  }

  Result Reshape(int i) {
    if (GroupNorm(i).ok() || ChannelShuffle(i).ok()) return absl::OkStatus();
    const TensorRef x = graph_.Input(i, 0), y = {i, 0};
    const Shape *from = InputShape(i, 0, {2, 4}), *to = graph_.shape(y);
    if (!from || !to || (to->size() != 2 && to->size() != 4)) {
      return Refuse("unknown shape");
    }
    // Between [N,W,C] and [N,1,W,C].
    if (graph_.same_shape(x, y) && !graph_.channels_first(x) &&
        !graph_.channels_first(y)) {
      ImportedOperator op = Make(i, OperatorType::kActivation, {x});
      op.kind = ImportedOperator::Kind::kLayout;
      return Emit(std::move(op));
    }
    // From maps to the features of each image, for a MatMul: see fusion.cc.
    const bool flattens =
        from->size() == 4 && to->size() == 2 && graph_.fixed_size(x);
    for (int probe = 0; probe < graph_.probes(); ++probe) {
      const Shape *a = graph_.shape(x, probe), *b = graph_.shape(y, probe);
      if ((!a || !b) && probe >= graph_.required_probes()) continue;
      if (!a || !b || NumElements(*a) != NumElements(*b) ||
          (a->back() != b->back() && !(flattens && (*a)[0] == (*b)[0]))) {
        return Refuse("it is no change between [N,1,1,C] and [N,C]");
      }
    }
    for (const TensorRef& t : {x, y}) {
      const Shape& shape = *graph_.shape(t);
      if (graph_.channels_first(t) && !(t == x && flattens) &&
          (shape[1] != 1 || shape[2] != 1 || !graph_.fixed_size(t))) {
        return Refuse("it changes the order of cells");
      }
    }
    ImportedOperator op = Make(i, OperatorType::kActivation, {x});
    op.kind = ImportedOperator::Kind::kReshape;
    op.from = graph_.layout(x);
    return Emit(std::move(op));
  }

  Result Cast(int i) {
    const auto from = ToDataType(graph_.dtype(graph_.Input(i, 0)));
    if (!from) return Refuse("it converts integers");
    TF_RETURN_IF_ERROR(CheckDtype(*from));
    ImportedOperator op =
        Make(i, OperatorType::kActivation, {graph_.Input(i, 0)});
    op.kind = ImportedOperator::Kind::kCast;
    return Emit(std::move(op));
  }

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

}  // namespace

bool Selection::IsKnown() const {
  return compares == "Greater" || compares == "GreaterEqual" ||
         compares == "Less" || compares == "LessEqual";
}

bool Selection::Holds(float x) const {
  if (compares == "Greater") return x > than;
  if (compares == "GreaterEqual") return x >= than;
  return compares == "Less" ? x < than : x <= than;
}

std::string OperatorName(const GraphIndex& graph, int node) {
  const NodeDef& def = graph.node(node);
  if (absl::StrContains(def.op(), "Conv") && graph.inputs(node).size() > 1) {
    absl::string_view filter = graph.node(graph.Input(node, 1).node).name();
    if (absl::ConsumeSuffix(&filter, "/merged_input")) {
      return std::string(filter);
    }
  }
  return def.name();
}

std::vector<ImportedOperator> ImportNodes(GraphIndex* graph,
                                          const Placement& placement,
                                          std::vector<Refusal>* refusals) {
  return Importer(graph, placement, refusals).Run();
}

}  // namespace ios::tf
