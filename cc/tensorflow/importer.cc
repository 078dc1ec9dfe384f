#include "cc/tensorflow/importer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/tensorflow/dtypes.h"
#include "cc/tensorflow/layouts.h"
#include "cc/tensorflow/shape_arithmetic.h"
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

// The numbers of an int32 or int64 tensor.
std::optional<std::vector<int64_t>> Integers(const Tensor* tensor) {
  std::vector<int64_t> values;
  if (!tensor) return std::nullopt;
  if (tensor->dtype() == tensorflow::DT_INT32) {
    const auto flat = tensor->flat<int32_t>();
    values.assign(flat.data(), flat.data() + flat.size());
  } else if (tensor->dtype() == tensorflow::DT_INT64) {
    const auto flat = tensor->flat<int64_t>();
    values.assign(flat.data(), flat.data() + flat.size());
  } else {
    return std::nullopt;
  }
  return values;
}

std::optional<Activation> ActivationOf(const std::string& op) {
  static const auto* const kActivations =
      new std::unordered_map<std::string, Activation>{
          {"Relu", Activation::kRelu},       {"Relu6", Activation::kRelu6},
          {"Sigmoid", Activation::kSigmoid}, {"Tanh", Activation::kTanh},
          {"Elu", Activation::kElu},
      };
  const auto it = kActivations->find(op);
  if (it == kActivations->end()) return std::nullopt;
  return it->second;
}

class Importer {
 public:
  Importer(GraphIndex* graph, const Placement& placement,
           std::vector<Refusal>* refusals)
      : graph_(*graph), placement_(placement), refusals_(*refusals) {}

  std::vector<ImportedOperator> Run() {
    for (int i : graph_.order()) {
      if (graph_.constant(i) || graph_.conditional(i) ||
          graph_.passthrough(i) || graph_.fed(i) || !graph_.live(i)) {
        continue;
      }
      const NodeDef& node = graph_.node(i);
      const auto it = Handlers().find(node.op());
      if (it == Handlers().end()) continue;
      Result result = Inspect(i);
      if (result.ok()) result = (this->*it->second)(i);
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
            {"MatMul", &Importer::MatMul},
            {"_FusedMatMul", &Importer::MatMul},
            {"BiasAdd", &Importer::BiasAdd},
            {"Add", &Importer::Arithmetic},
            {"AddV2", &Importer::Arithmetic},
            {"Sub", &Importer::Arithmetic},
            {"Mul", &Importer::Arithmetic},
            {"RealDiv", &Importer::Arithmetic},
            {"AddN", &Importer::AddN},
            {"FusedBatchNorm", &Importer::BatchNorm},
            {"FusedBatchNormV2", &Importer::BatchNorm},
            {"FusedBatchNormV3", &Importer::BatchNorm},
            {"Relu", &Importer::Unary},
            {"Relu6", &Importer::Unary},
            {"Sigmoid", &Importer::Unary},
            {"Tanh", &Importer::Unary},
            {"Elu", &Importer::Unary},
            {"MaxPool", &Importer::Pool},
            {"AvgPool", &Importer::Pool},
            {"Mean", &Importer::Reduce},
            {"Max", &Importer::Reduce},
            {"ConcatV2", &Importer::Concat},
            {"Softmax", &Importer::Softmax},
            {"ResizeBilinear", &Importer::Resize},
            {"ResizeNearestNeighbor", &Importer::Resize},
            {"Tile", &Importer::Repeat},
            {"Pad", &Importer::Pad},
            {"PadV2", &Importer::Pad},
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
    std::optional<bool> first;
    const bool reshapes =
        op == "Reshape" || op == "Squeeze" || op == "ExpandDims";
    const auto fits = [&](TensorRef t) {
      const Shape* shape = graph_.shape(t);
      if (!shape || shape->size() != 4 || reshapes) return true;
      if (!first) first = graph_.channels_first(t);
      return *first == graph_.channels_first(t);
    };
    for (size_t k = 0; k < graph_.inputs(i).size(); ++k) {
      const TensorRef t = graph_.Input(i, k);
      if (graph_.constant(t.node)) continue;
      if (!fits(t)) return Refuse("its tensors differ in layout");
    }
    if (!fits({i, 0})) return Refuse("its tensors differ in layout");
    channels_first_ = first.value_or(false);
    const std::string format = Attr<std::string>(node, "data_format", "");
    if (first && !format.empty() &&
        format != (channels_first_ ? "NCHW" : "NHWC")) {
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
  // [N,H,W,C]; `each` numbers per dimension.
  std::vector<int64_t> Logical(const std::vector<int64_t>& list,
                               size_t each = 1) const {
    if (!channels_first_ || list.size() != 4 * each) return list;
    std::vector<int64_t> result;
    for (size_t d : {0, 2, 3, 1}) {
      result.insert(result.end(), list.begin() + d * each,
                    list.begin() + (d + 1) * each);
    }
    return result;
  }
  // The place of dimension `axis` of a tensor of `rank` in that order.
  int64_t LogicalAxis(int64_t axis, size_t rank) const {
    if (axis < 0) axis += rank;
    if (!channels_first_ || rank != 4 || axis < 1 || axis > 3) return axis;
    return axis == 1 ? 3 : axis - 1;
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
        tensor->dims() > static_cast<int>(x.size())) {
      return std::nullopt;
    }
    if (tensor->NumElements() != 1) {
      const int channel =
          tensor->dims() - (channels_first_ && x.size() == 4 ? 3 : 1);
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
  const Shape* InputShape(int i, size_t k, std::initializer_list<size_t> ranks) {
    if (k >= graph_.inputs(i).size() ||
        graph_.dtype(graph_.Input(i, k)) != graph_.dtype({i, 0})) {
      return nullptr;
    }
    const Shape* shape = graph_.shape(graph_.Input(i, k));
    if (!shape || std::count(ranks.begin(), ranks.end(), shape->size()) == 0) {
      return nullptr;
    }
    return shape;
  }
  const Tensor* Constant(int i, size_t k) {
    if (k >= graph_.inputs(i).size()) return nullptr;
    return graph_.Constant(graph_.inputs(i)[k]);
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
    result.op.name = graph_.node(i).name();
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
    if (next < fused.size() && ActivationOf(fused[next])) {
      op->op.activation = *ActivationOf(fused[next]);
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
    const Tensor* filter = Constant(i, 1);
    if (!filter || !ToDataType(filter->dtype()) || filter->dims() != 4) {
      return Refuse("its filter is no constant");
    }
    ImportedOperator op = Make(i, OperatorType::kConv2D, {graph_.Input(i, 0)});
    const int64_t channels = graph_.shape(op.inputs[0])->back();
    op.op.kernel = {filter->dim_size(0), filter->dim_size(1)};
    if (depthwise) {
      op.op.groups = channels;
      op.op.filters = channels * filter->dim_size(3);
    } else {
      op.op.filters = filter->dim_size(3);
      if (filter->dim_size(2) < 1 || channels % filter->dim_size(2) != 0) {
        return Refuse("its filter does not fit its input");
      }
      op.op.groups = channels / filter->dim_size(2);
    }
    if (!Spatial(Attr<std::vector<int64_t>>(node, "strides", {}),
                 &op.op.strides) ||
        !Spatial(Attr<std::vector<int64_t>>(node, "dilations", {1, 1, 1, 1}),
                 &op.op.dilations)) {
      return Refuse("its strides or dilations are not of height and width");
    }
    TF_RETURN_IF_ERROR(ReadPadding(node, &op.op.padding));
    op.weights = {Floats(*filter)};
    TF_RETURN_IF_ERROR(ReadFusedOps(i, &op));
    ReadSpaceToBatch(&op);
    return Emit(std::move(op));
  }

  // tf.nn.convolution writes a dilated convolution as a plain one between
  // SpaceToBatchND and BatchToSpaceND: takes all three into `op`.
  void ReadSpaceToBatch(ImportedOperator* op) {
    const int conv = op->output.node;
    const int before = op->inputs[0].node, after = OnlyConsumer(op->output);
    if (channels_first_ || graph_.node(before).op() != "SpaceToBatchND" ||
        after < 0 || graph_.node(after).op() != "BatchToSpaceND" ||
        OnlyConsumer({before, 0}) != conv || !InputShape(before, 0, {4}) ||
        graph_.Input(after, 0) != TensorRef{conv, 0} || op->op.bias ||
        op->op.activation != Activation::kNone ||
        op->op.padding.type != PaddingType::kValid ||
        op->op.strides != std::array<int64_t, 2>{1, 1} ||
        op->op.dilations != std::array<int64_t, 2>{1, 1}) {
      return;
    }
    const auto block = Integers(Constant(before, 1));
    const auto pads = Integers(Constant(before, 2));
    const auto block_after = Integers(Constant(after, 1));
    const auto crops = Integers(Constant(after, 2));
    if (!block || !pads || !crops || block->size() != 2 || pads->size() != 4 ||
        crops->size() != 4 || block != block_after || (*crops)[0] != 0 ||
        (*crops)[2] != 0 || (*pads)[1] < (*crops)[1] ||
        (*pads)[3] < (*crops)[3]) {
      return;
    }
    op->op.dilations = {(*block)[0], (*block)[1]};
    op->op.padding = {PaddingType::kExplicit, (*pads)[0],
                      (*pads)[1] - (*crops)[1], (*pads)[2],
                      (*pads)[3] - (*crops)[3]};
    op->inputs = {graph_.Input(before, 0)};
    op->output = {after, 0};
    op->nodes = {before, conv, after};
  }

  Result MatMul(int i) {
    const NodeDef& node = graph_.node(i);
    const Tensor* weight = Constant(i, 1);
    if (!InputShape(i, 0, {2}) || Attr<bool>(node, "transpose_a", false) ||
        !weight || !ToDataType(weight->dtype()) || weight->dims() != 2) {
      return Refuse("it does not multiply [N,C] by a constant matrix");
    }
    ImportedOperator op = Make(i, OperatorType::kMatMul, {graph_.Input(i, 0)});
    std::vector<float> values = Floats(*weight);
    int64_t rows = weight->dim_size(0), columns = weight->dim_size(1);
    if (Attr<bool>(node, "transpose_b", false)) {
      std::vector<float> transposed(values.size());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          transposed[c * rows + r] = values[r * columns + c];
        }
      }
      values = std::move(transposed);
      std::swap(rows, columns);
    }
    op.op.filters = columns;
    op.weights = {std::move(values)};
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

  Result Arithmetic(int i) {
    const std::string& op = graph_.node(i).op();
    for (int k : {0, 1}) {
      const Shape* x = InputShape(i, 1 - k, {2, 4});
      auto constant =
          x ? PerChannel(Constant(i, k), *x) : std::optional<std::vector<float>>();
      // x / 2 is x * 0.5; 2 / x is no scale.
      if (!constant || (k == 0 && op == "RealDiv")) continue;
      std::vector<float> scale(x->back(), 1.0f), shift(x->back(), 0.0f);
      for (size_t c = 0; c < scale.size(); ++c) {
        const float value = (*constant)[c];
        if (op == "Mul") {
          scale[c] = value;
        } else if (op == "RealDiv") {
          scale[c] = 1.0f / value;
        } else if (op == "Sub") {
          scale[c] = k == 0 ? -1.0f : 1.0f;
          shift[c] = k == 0 ? value : -value;
        } else {
          shift[c] = value;
        }
      }
      return EmitScale(i, graph_.Input(i, 1 - k), std::move(scale),
                       std::move(shift));
    }
    const Shape* x = InputShape(i, 0, {2, 4});
    const Shape* y = InputShape(i, 1, {2, 4});
    if (!x || !y) return Refuse("unknown shape");
    TensorRef a = graph_.Input(i, 0), b = graph_.Input(i, 1);
    if ((op == "Add" || op == "AddV2") && *x == *y) {
      return Emit(Make(i, OperatorType::kAdd, {a, b}));
    }
    if (op == "Mul") {
      if (NumElements(*x) < NumElements(*y)) {
        std::swap(a, b);
        std::swap(x, y);
      }
      if (*x == *y || (x->size() == 4 && *y == Shape{(*x)[0], 1, 1, (*x)[3]})) {
        return Emit(Make(i, OperatorType::kMultiply, {a, b}));
      }
    }
    return Refuse("unknown arithmetic");
  }

  Result AddN(int i) {
    const size_t inputs = graph_.inputs(i).size();
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x || inputs < 2) return Refuse("unknown shape");
    std::vector<TensorRef> tensors;
    for (size_t k = 0; k < inputs; ++k) {
      const Shape* y = InputShape(i, k, {2, 4});
      if (!y || *y != *x) return Refuse("unknown shape");
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

  Result Unary(int i) {
    if (!InputShape(i, 0, {2, 4})) return Refuse("unknown shape");
    // The same activation of the same tensor, computed once: NASNet has five.
    const NodeDef& node = graph_.node(i);
    const auto key = std::make_pair(node.op(), graph_.Input(i, 0));
    const auto known = unary_.find(key);
    if (known != unary_.end() && !graph_.preserved(i) &&
        graph_.controls(i).empty() &&
        graph_.node(known->second).device() == node.device()) {
      graph_.Alias(i, {known->second, 0});
      return absl::OkStatus();
    }
    unary_.emplace(key, i);
    ImportedOperator op =
        Make(i, OperatorType::kActivation, {graph_.Input(i, 0)});
    op.op.activation = *ActivationOf(node.op());
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
    return Emit(std::move(op));
  }

  Result Reduce(int i) {
    const NodeDef& node = graph_.node(i);
    auto axes = Integers(Constant(i, 1));
    if (!InputShape(i, 0, {4}) || !axes || axes->size() != 2) {
      return Refuse("unknown shape");
    }
    for (int64_t& axis : *axes) axis = LogicalAxis(axis, 4);
    std::sort(axes->begin(), axes->end());
    if (*axes != std::vector<int64_t>{1, 2}) {
      return Refuse("it reduces other dimensions than height and width");
    }
    ImportedOperator op =
        Make(i, OperatorType::kGlobalPool, {graph_.Input(i, 0)});
    op.op.pool = node.op() == "Max" ? PoolKind::kMax : PoolKind::kAvg;
    op.op.keep_dims = Attr<bool>(node, "keep_dims", false);
    return Emit(std::move(op));
  }

  Result Concat(int i) {
    const int n = static_cast<int>(graph_.inputs(i).size()) - 1;
    const auto axis = Integers(Constant(i, n));
    const Shape* x = InputShape(i, 0, {2, 4});
    if (!x || !axis || axis->size() != 1) return Refuse("unknown shape");
    if (LogicalAxis((*axis)[0], x->size()) + 1u != x->size()) {
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
    if (!x || (channels_first_ && x->size() == 4)) {
      return Refuse("it is not over channels");
    }
    return Emit(Make(i, OperatorType::kSoftmax, {graph_.Input(i, 0)}));
  }

  Result Pad(int i) {
    const auto of_dimensions = Integers(Constant(i, 1));
    if (!InputShape(i, 0, {4}) || !of_dimensions)
      return Refuse("unknown shape");
    const std::vector<int64_t> pads = Logical(*of_dimensions, 2);
    if (pads.size() != 8 || pads[0] || pads[1] || pads[6] || pads[7]) {
      return Refuse("it does not pad height and width");
    }
    if (graph_.inputs(i).size() > 2) {
      const Tensor* value = Constant(i, 2);
      if (!value || !ToDataType(value->dtype()) ||
          Floats(*value) != std::vector<float>{0.0f}) {
        return Refuse("it does not pad with zeros");
      }
    }
    ImportedOperator op = Make(i, OperatorType::kPad, {graph_.Input(i, 0)});
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
    if (LogicalAxis((*axis)[0], x->size()) + 1u != x->size()) {
      return Refuse("it does not split channels");
    }
    const int parts =
        Attr<int64_t>(graph_.node(i), "num_split", 0);
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
    const Shape* y = graph_.shape({i, 0});
    if (!x || !y || !begin || begin->size() != x->size()) {
      return Refuse("unknown shape");
    }
    return EmitRange(i, *x, *y, Logical(*begin));
  }

  Result StridedSlice(int i) {
    const NodeDef& node = graph_.node(i);
    const Shape* x = InputShape(i, 0, {2, 4});
    const Shape* y = graph_.shape({i, 0});
    const auto spec = Integers(Constant(i, 1));
    const auto strides = Integers(Constant(i, 3));
    if (!x || !y || !spec || !strides || strides->size() != spec->size() ||
        y->size() != x->size() || Attr<int64_t>(node, "new_axis_mask", 0) ||
        Attr<int64_t>(node, "shrink_axis_mask", 0)) {
      return Refuse("unknown slice");
    }
    const int64_t mask = Attr<int64_t>(node, "begin_mask", 0);
    const int64_t ellipsis = Attr<int64_t>(node, "ellipsis_mask", 0);
    // The specification may leave dimensions out: those of the ellipsis, or the
    // last ones.
    std::vector<int64_t> begin(x->size(), 0);
    const auto size = [&](size_t d) { return (*x)[LogicalAxis(d, x->size())]; };
    size_t d = 0;
    for (size_t k = 0; k < spec->size(); ++k, ++d) {
      if (ellipsis >> k & 1) {
        d += x->size() - spec->size();
        continue;
      }
      if (d >= x->size() || (*strides)[k] != 1) return Refuse("it has strides");
      if (!(mask >> k & 1)) begin[d] = (*spec)[k];
      if (begin[d] < 0) begin[d] += size(d);
    }
    return EmitRange(i, *x, *y, Logical(begin));
  }

  // x[begin : begin + size of y]: a range of channels, or cells cut from the
  // borders of height and width.
  Result EmitRange(int i, const Shape& x, const Shape& y,
                   const std::vector<int64_t>& begin) {
    const int64_t last = x.size() - 1;
    bool channels = true;
    for (int64_t d = 0; d < last; ++d) channels = channels && x[d] == y[d];
    if (channels) {
      EmitSlice(i, 0, graph_.Input(i, 0), begin[last], y[last]);
      return absl::OkStatus();
    }
    if (x.size() != 4 || x[0] != y[0] || x[3] != y[3]) {
      return Refuse("it cuts batch and other dimensions");
    }
    // Where it ends may not depend on where its input does.
    if (!graph_.fixed_size(graph_.Input(i, 0))) {
      return Refuse("it cuts an image of unknown size");
    }
    ImportedOperator op = Make(i, OperatorType::kPad, {graph_.Input(i, 0)});
    op.op.padding = {PaddingType::kExplicit, -begin[1],
                     begin[1] + y[1] - x[1], -begin[2], begin[2] + y[2] - x[2]};
    return Emit(std::move(op));
  }

  // The output's height and width as its shape operand says, for every size of the
  // input: op's first one, of the shape `x`.
  Result ReadOutputSize(int i, const SizeExpressions& sizes,
                        ImportedOperator* op) {
    const TensorRef x = op->inputs[0];
    std::optional<TensorRef> like;
    for (int k = 0; k < 2; ++k) {
      const auto size = k < static_cast<int>(sizes.size()) ? sizes[k]
                                                           : std::nullopt;
      const Shape* y = graph_.shape({i, 0});
      if (size && size->constant()) {
        op->op.output_size[k] = size->offset;
      } else if (size && size->offset == 0 && size->factor > 0 &&
                 size->axis == 1 + k &&
                 (k == 0 || size->tensor == like.value_or(x))) {
        op->op.factors[k] = size->factor;
        if (size->tensor != x) like = size->tensor;
      } else if (y && y->size() == 4 && graph_.fixed_size({i, 0})) {
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

  // tf.repeat along height or width, as which Keras writes UpSampling2D: ExpandDims
  // behind that dimension, Tile along the new one, Reshape to an image again.
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
    if (!axis || axis->size() != 1 || !multiples || multiples->size() != 5 ||
        sizes.size() != 4 || wanted.size() != 4 ||
        graph_.channels_first(x) != graph_.channels_first({after, 0})) {
      return Refuse("unknown shape");
    }
    if ((*axis)[0] < 0) (*axis)[0] += 5;
    const int64_t repeated = (*axis)[0] - 1;
    int64_t times = 1;
    for (int64_t d = 0; d < 5; ++d) {
      if (d == (*axis)[0]) {
        times = (*multiples)[d];
      } else if ((*multiples)[d] != 1) {
        return Refuse("it repeats more than cells");
      }
    }
    channels_first_ = graph_.channels_first(x);
    const int64_t dimension = LogicalAxis(repeated, 4);
    if (repeated < 0 || times < 1 || (dimension != 1 && dimension != 2)) {
      return Refuse("it repeats other dimensions than height and width");
    }
    for (int d = 0; d < 4; ++d) {
      if (d == repeated) {
        wanted[d]->factor *= times;
        wanted[d]->offset *= times;
      }
      const bool inferred = sizes[d] && sizes[d]->constant() &&
                            sizes[d]->offset == -1;
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
    const bool from = graph_.channels_first(x), to = graph_.channels_first(y);
    const Permutation permutation = PermutationOf(&graph_, i);
    // Keras writes one that changes nothing in front of every Dense of maps.
    if (permutation == Permutation::kNone && from == to &&
        !graph_.preserved(i) && graph_.controls(i).empty()) {
      graph_.Alias(i, x);
      return absl::OkStatus();
    }
    const Shape* shape = graph_.shape(x);
    if (!shape || shape->size() != 4 ||
        !((permutation == Permutation::kToChannelsFirst && !from && to) ||
          (permutation == Permutation::kToChannelsLast && from && !to))) {
      return Refuse("it permutes dimensions");
    }
    ImportedOperator op = Make(i, OperatorType::kActivation, {x});
    op.kind = ImportedOperator::Kind::kTranspose;
    return Emit(std::move(op));
  }

  Result Reshape(int i) {
    const Shape* x = InputShape(i, 0, {2, 4});
    const Shape* y = graph_.shape({i, 0});
    if (!x || !y || (y->size() != 2 && y->size() != 4) ||
        x->back() != y->back() || NumElements(*x) != NumElements(*y)) {
      return Refuse("it is no change between [N,1,1,C] and [N,C]");
    }
    for (const TensorRef& t : {graph_.Input(i, 0), TensorRef{i, 0}}) {
      const Shape& shape = *graph_.shape(t);
      if (graph_.channels_first(t) &&
          (shape[1] != 1 || shape[2] != 1 || !graph_.fixed_size(t))) {
        return Refuse("it changes the order of cells");
      }
    }
    ImportedOperator op =
        Make(i, OperatorType::kActivation, {graph_.Input(i, 0)});
    op.kind = ImportedOperator::Kind::kReshape;
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
  bool channels_first_ = false;  // of its tensors of rank 4
  std::vector<ImportedOperator> operators_;
  std::map<std::pair<std::string, TensorRef>, int> unary_;
};

}  // namespace

std::vector<ImportedOperator> ImportNodes(GraphIndex* graph,
                                          const Placement& placement,
                                          std::vector<Refusal>* refusals) {
  return Importer(graph, placement, refusals).Run();
}

}  // namespace ios::tf
