// Handlers of convolutions, transposed convolutions, convolutions between
// SpaceToBatchND and BatchToSpaceND, and matrix products.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"
#include "cc/tensorflow/import/weight.h"
#include "cc/tensorflow/shapes/shape_arithmetic.h"

namespace ios::tf {
namespace {

constexpr char kUnknownSize[] =
    "the input is not an image whose channels, height and width are known";

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

// Returns input k as the weight of a convolution or product, and its shape.
std::optional<std::pair<Weight, Shape>> Filter(const ImportContext& in, int i,
                                               size_t k, size_t rank) {
  if (k >= in.graph().inputs(i).size()) return std::nullopt;
  const TensorRef input = in.Input(i, k);
  const Tensor* const constant = in.Constant(i, k);
  const Shape* shape = nullptr;
  Shape of_constant;
  if (constant && ToDataType(constant->dtype())) {
    for (int d = 0; d < constant->dims(); ++d) {
      of_constant.push_back(constant->dim_size(d));
    }
    shape = &of_constant;
  } else if (!constant && in.graph().variable(input.node)) {
    shape = in.shapes().shape(input);
  }
  if (!shape || shape->size() != rank || NumElements(*shape) == 0) {
    return std::nullopt;
  }
  return std::make_pair(constant ? Weight(Floats(*constant)) : Weight(input),
                        *shape);
}

Result ReadWindow(const ImportContext& in, const NodeDef& node, Operator* op) {
  if (!Spatial(Attr<std::vector<int64_t>>(node, "strides", {}), in.layout(),
               &op->strides) ||
      !Spatial(Attr<std::vector<int64_t>>(node, "dilations", {1, 1, 1, 1}),
               in.layout(), &op->dilations)) {
    return Refuse(
        Reason::kAttribute,
        "the strides or dilations are out of range, or are not 1 for batch and "
        "channels");
  }
  if (!ReadPadding(node, in.layout(), &op->padding)) {
    return Refuse(Reason::kDimension,
                  "the explicit padding pads the batch or the channels");
  }
  return absl::OkStatus();
}

// Reads the operations (bias, batch norm, activation) that TensorFlow's
// remapper has fused into a _FusedConv2D or _FusedMatMul. Their arguments start
// at data input 2.
Result ReadFusedOps(ImportContext& in, int i, ImportedOperator* op) {
  const NodeDef& node = in.graph().node(i);
  auto fused = Attr<std::vector<std::string>>(node, "fused_ops", {});
  size_t next = 0;
  if (next < fused.size() && fused[next] == "BiasAdd") {
    const Tensor* bias = in.Constant(i, 2);
    if (!bias || !ToDataType(bias->dtype()) ||
        bias->NumElements() != op->op.filters) {
      return Refuse(Reason::kOperandNotConstant,
                    "the bias is not a constant with one value per filter");
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
    return Refuse(
        Reason::kFusedOperation,
        absl::StrCat("the engine does not support the fused operation ",
                     fused[next]));
  }
  return absl::OkStatus();
}

// Returns the padding that SpaceToBatchND adds around an image, minus the cells
// that BatchToSpaceND cuts off again. Both depend on the image's size, because
// they pad it to a multiple of the block. Returns nullopt unless the difference
// is the same for every size.
std::optional<std::array<int64_t, 4>> PaddingAround(
    ImportContext& in, int before, int after,
    const std::vector<int64_t>& block) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const size_t dims = block.size();
  std::array<int64_t, 4> padding = {};
  for (int sample = 0; sample < shapes.samples(); ++sample) {
    const auto* pads = shapes.integers(graph.inputs(before)[2], sample);
    const auto* crops = shapes.integers(graph.inputs(after)[2], sample);
    if ((!pads || !crops) && sample >= shapes.required_samples()) continue;
    if (!pads || !crops || pads->size() != 2 * dims ||
        crops->size() != 2 * dims) {
      return std::nullopt;
    }
    const Shape* const x = shapes.shape(in.Input(before, 0), sample);
    for (size_t d = 0; x && d < dims; ++d) {
      const int64_t size = (*x)[3 - dims + d];
      if ((size + (*pads)[2 * d] + (*pads)[2 * d + 1]) % block[d] != 0) {
        return std::nullopt;
      }
    }
    for (size_t k = 0; k < 2 * dims; ++k) {
      int64_t& cells = padding[4 - 2 * dims + k];
      const int64_t here = (*pads)[k] - (*crops)[k];
      if (here < 0 || (sample > 0 && here != cells)) return std::nullopt;
      cells = here;
    }
  }
  return padding;
}

// tf.nn.convolution writes a dilated convolution as a convolution without
// dilation between SpaceToBatchND and BatchToSpaceND. If `op` is such a
// convolution, makes it replace all three nodes.
void ReadSpaceToBatch(ImportContext& in, ImportedOperator* op) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const int conv = op->output.node;
  TensorRef from = op->inputs[0], to = op->output;
  std::vector<int> nodes = {conv};
  // For a sequence, the graph adds a dimension before the convolution and
  // removes it afterwards.
  const int expands = from.node, squeezes = graph.OnlyConsumer(to);
  if (graph.node(expands).op() == "ExpandDims" && squeezes >= 0 &&
      graph.node(squeezes).op() == "Squeeze" &&
      graph.OnlyConsumer(from) == conv &&
      shapes.same_shape(in.Input(expands, 0), from) &&
      shapes.same_shape(to, {squeezes, 0})) {
    nodes.insert(nodes.end(), {expands, squeezes});
    from = in.Input(expands, 0);
    to = {squeezes, 0};
  }
  const size_t dims = nodes.size() == 1 ? 2 : 1;
  const int before = from.node, after = graph.OnlyConsumer(to);
  if (in.layout() != Layout::kChannelsLast ||
      graph.node(before).op() != "SpaceToBatchND" || after < 0 ||
      graph.node(after).op() != "BatchToSpaceND" ||
      graph.OnlyConsumer(from) != (dims == 1 ? expands : conv) ||
      !in.InputShape(before, 0, {4}) || in.Input(after, 0) != to ||
      op->op.bias || op->op.activation != Activation::kNone ||
      op->op.padding.type != PaddingType::kValid ||
      op->op.strides != std::array<int64_t, 2>{1, 1} ||
      op->op.dilations != std::array<int64_t, 2>{1, 1}) {
    return;
  }
  const auto block = Integers(in.Constant(before, 1));
  const auto block_after = Integers(in.Constant(after, 1));
  if (!block || block->size() != dims || block != block_after ||
      *std::min_element(block->begin(), block->end()) < 1) {
    return;
  }
  const auto padding = PaddingAround(in, before, after, *block);
  if (!padding) return;
  op->op.dilations = {dims == 1 ? 1 : (*block)[0], block->back()};
  op->op.padding = {PaddingType::kExplicit, (*padding)[0], (*padding)[1],
                    (*padding)[2], (*padding)[3]};
  op->inputs = {in.Input(before, 0)};
  op->output = {after, 0};
  nodes.insert(nodes.end(), {before, after});
  op->nodes = std::move(nodes);
}

Result Convolution(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  const bool depthwise = node.op().find("Depthwise") != std::string::npos;
  if (!in.InputShape(i, 0, {4})) {
    return Refuse(Reason::kUnknownShape, kUnknownSize);
  }
  auto filter = Filter(in, i, 1, 4);
  if (!filter)
    return Refuse(Reason::kOperandNotConstant,
                  "the filter must be a constant or a variable");
  ImportedOperator op = in.Make(i, OperatorType::kConv2D, {in.Input(i, 0)});
  const int64_t channels = in.shapes().shape(op.inputs[0])->back();
  const Shape& shape = filter->second;
  op.op.kernel = {shape[0], shape[1]};
  if (depthwise) {
    op.op.groups = channels;
    op.op.filters = channels * shape[3];
  } else {
    op.op.filters = shape[3];
    if (channels % shape[2] != 0) {
      return Refuse(
          Reason::kChannels,
          "the input's channels are not a multiple of the filter's channels");
    }
    op.op.groups = channels / shape[2];
  }
  TF_RETURN_IF_ERROR(ReadWindow(in, node, &op.op));
  op.weights = {std::move(filter->first)};
  TF_RETURN_IF_ERROR(ReadFusedOps(in, i, &op));
  ReadSpaceToBatch(in, &op);
  return in.Emit(std::move(op));
}

Result ReadReference(ImportContext& in, const SizeExpressions& sizes,
                     ImportedOperator* op) {
  if (sizes.size() != 2 || !sizes[0] || !sizes[1] ||
      op->op.padding.type == PaddingType::kExplicit) {
    return Refuse(
        Reason::kOutputSize,
        "the engine cannot derive the output size for all input sizes");
  }
  const TensorRef like = sizes[0]->tensor;
  const Shape* shape = sizes[0]->constant() ? nullptr : in.shapes().shape(like);
  for (int k : {0, 1}) {
    if (sizes[k]->factor != 1 || sizes[k]->offset != 0 ||
        sizes[k]->tensor != like || sizes[k]->axis != 1 + k) {
      return Refuse(
          Reason::kOutputSize,
          "the engine cannot derive the output size for all input sizes");
    }
  }
  if (!shape || shape->size() != 4 ||
      in.shapes().dtype(like) != in.shapes().dtype(op->inputs[0])) {
    return Refuse(
        Reason::kOutputSize,
        "the output takes its size from a tensor that is not an image of the "
        "input's data type");
  }
  op->op.size_from_last_input = true;
  op->inputs.push_back(like);
  return absl::OkStatus();
}

// Sets the padding of a transposed convolution such that the output has the
// size in `sizes`, for every size of the input. If no padding does this, adds
// another input: the tensor whose size the output must have.
Result ReadTransposedSize(ImportContext& in, int i,
                          const SizeExpressions& sizes,
                          ImportedOperator* imported) {
  Operator& op = imported->op;
  const TensorRef x = imported->inputs[0];
  const Shape &from = *in.shapes().shape(x), *to = in.shapes().shape({i, 0});
  const Padding given = op.padding;
  std::array<int64_t, 4> cut;
  for (int k : {0, 1}) {
    const auto size =
        k < static_cast<int>(sizes.size()) ? sizes[k] : std::nullopt;
    const int64_t window = (op.kernel[k] - 1) * op.dilations[k] + 1;
    int64_t total;  // extent of all windows minus the output's size
    if (size && size->factor == op.strides[k] &&
        size->tensor == SizesFrom(in.analyzed(), x) && size->axis == 1 + k) {
      total = window - op.strides[k] - size->offset;
    } else if (to && to->size() == 4 && in.shapes().fixed(x, 1 + k) &&
               in.shapes().fixed({i, 0}, 1 + k)) {
      total = (from[1 + k] - 1) * op.strides[k] + window - (*to)[1 + k];
    } else {
      return ReadReference(in, sizes, imported);
    }
    cut[2 * k] = 0;
    int64_t most = 0;  // the forward convolution's largest padding
    if (given.type == PaddingType::kSame) {
      cut[2 * k] = std::max<int64_t>(total, 0) / 2;
      most = window - 1;
    } else if (given.type == PaddingType::kExplicit) {
      cut[2 * k] = k == 0 ? given.top : given.left;
      most = k == 0 ? given.top + given.bottom : given.left + given.right;
    }
    // A forward convolution of the output must give the input's size.
    // TensorFlow checks this only when it runs the node.
    if (total > most || total <= most - op.strides[k]) {
      return Refuse(
          Reason::kOutputSize,
          "the input does not have the size that follows from the output size, "
          "strides and padding");
    }
    cut[2 * k + 1] = total - cut[2 * k];
  }
  op.padding = {PaddingType::kExplicit, cut[0], cut[1], cut[2], cut[3]};
  return absl::OkStatus();
}

Result TransposedConvolution(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  auto filter = Filter(in, i, 1, 4);
  const Shape* x = in.InputShape(i, 2, {4});
  if (!x) return Refuse(Reason::kUnknownShape, kUnknownSize);
  if (!filter)
    return Refuse(Reason::kOperandNotConstant,
                  "the filter must be a constant or a variable");
  // The filter is [kh, kw, outputs, inputs].
  const Shape& shape = filter->second;
  if (shape[3] != x->back()) {
    return Refuse(
        Reason::kChannels,
        "the filter's last dimension is not the number of input channels");
  }
  ImportedOperator op =
      in.Make(i, OperatorType::kConv2DTranspose, {in.Input(i, 2)});
  op.op.kernel = {shape[0], shape[1]};
  op.op.filters = shape[2];
  TF_RETURN_IF_ERROR(ReadWindow(in, node, &op.op));
  // The operand with the output size has all four dimensions, or only height
  // and width.
  SizeExpressions sizes = ReadSizes(&in.analyzed(), in.Input(i, 0));
  if (sizes.size() == 4) {
    // A constant output size fixes the batch size. TensorFlow compares it with
    // the input's batch size only when it runs the node.
    if (sizes[0] && sizes[0]->constant() &&
        !in.shapes().known(op.inputs[0], 0)) {
      return Refuse(
          Reason::kOutputSize,
          "the output size has a constant batch size, but the input's batch "
          "size varies");
    }
    sizes = in.layout() == Layout::kChannelsFirst
                ? SizeExpressions{sizes[2], sizes[3]}
                : SizeExpressions{sizes[1], sizes[2]};
  }
  TF_RETURN_IF_ERROR(ReadTransposedSize(in, i, sizes, &op));
  filter->first.Swap({shape[0] * shape[1], shape[2], shape[3], 1});
  op.weights = {std::move(filter->first)};
  return in.Emit(std::move(op));
}

// Emits the product of data input k, [N,C] or [N,H,W,C], and the weight matrix
// in the other data input.
Result EmitProduct(ImportContext& in, int i, size_t k,
                   std::initializer_list<size_t> ranks, bool transposed) {
  const Shape* x = in.InputShape(i, k, ranks);
  auto weight = Filter(in, i, 1 - k, 2);
  if (!x || !weight ||
      (x->size() == 4 && in.layout() == Layout::kChannelsFirst)) {
    return Refuse(
        Reason::kOperandNotConstant,
        "the node does not multiply channels by a matrix that is a constant or "
        "a variable");
  }
  const Shape& shape = weight->second;
  if (shape[transposed] != x->back()) {
    return Refuse(Reason::kChannels,
                  "the matrix does not fit the channels of the input");
  }
  ImportedOperator op =
      in.Make(i, x->size() == 2 ? OperatorType::kMatMul : OperatorType::kConv2D,
              {in.Input(i, k)});
  if (transposed) weight->first.Swap({1, shape[0], shape[1], 1});
  op.op.filters = shape[!transposed];
  op.weights = {std::move(weight->first)};
  TF_RETURN_IF_ERROR(ReadFusedOps(in, i, &op));
  return in.Emit(std::move(op));
}

Result MatMul(ImportContext& in, int i) {
  if (Attr<bool>(in.graph().node(i), "transpose_a", false)) {
    return Refuse(Reason::kEquation, "the engine does not support transpose_a");
  }
  return EmitProduct(in, i, 0, {2},
                     Attr<bool>(in.graph().node(i), "transpose_b", false));
}

Result BatchMatMul(ImportContext& in, int i) {
  if (Attr<bool>(in.graph().node(i), "adj_x", false)) {
    return Refuse(Reason::kEquation, "the engine does not support adj_x");
  }
  return EmitProduct(in, i, 0, {4},
                     Attr<bool>(in.graph().node(i), "adj_y", false));
}

Result Einsum(ImportContext& in, int i) {
  const std::vector<std::string> sides = absl::StrSplit(
      Attr<std::string>(in.graph().node(i), "equation", ""), "->");
  const std::vector<std::string> operands = absl::StrSplit(sides[0], ',');
  if (sides.size() != 2 || operands.size() != 2 ||
      in.graph().inputs(i).size() != 2) {
    return Refuse(Reason::kEquation,
                  "the equation is not a product of two tensors");
  }
  const size_t k =
      in.Constant(i, 0) || in.graph().variable(in.Input(i, 0).node);
  // An einsum is a product only if it sums over the last dimension of x, and if
  // the result has the matrix's other dimension in its place.
  const std::string &x = operands[k], &matrix = operands[1 - k], &y = sides[1];
  if (matrix.size() != 2 || x.empty() || y.size() != x.size() ||
      x.compare(0, x.size() - 1, y, 0, y.size() - 1) != 0 ||
      y.find(x.back()) != std::string::npos) {
    return Refuse(Reason::kEquation,
                  "the equation is not a product of channels and a matrix");
  }
  for (char label : x) {
    if (label != '.' && std::count(x.begin(), x.end(), label) > 1) {
      return Refuse(Reason::kEquation, "the equation reads a diagonal");
    }
  }
  const bool transposed = matrix[0] == y.back();
  if (matrix[transposed] != x.back() || matrix[!transposed] != y.back()) {
    return Refuse(Reason::kEquation,
                  "the equation is not a product of channels and a matrix");
  }
  return EmitProduct(in, i, k, {2, 4}, transposed);
}

}  // namespace

HandlerTable ConvolutionHandlers() {
  return {
      {"Conv2D", Convolution},
      {"DepthwiseConv2dNative", Convolution},
      {"_FusedConv2D", Convolution},
      {"_FusedDepthwiseConv2dNative", Convolution},
      {"Conv2DBackpropInput", TransposedConvolution},
      {"MatMul", MatMul},
      {"_FusedMatMul", MatMul},
      {"BatchMatMul", BatchMatMul},
      {"BatchMatMulV2", BatchMatMul},
      {"Einsum", Einsum},
  };
}

}  // namespace ios::tf
