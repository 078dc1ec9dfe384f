#include "cc/tensorflow/import/importer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

std::vector<ImportedOperator> Importer::Run() {
  for (int i : graph_.order()) {
    if (graph_.constant(i) || graph_.conditional(i) || graph_.passthrough(i) ||
        graph_.fed(i) || graph_.variable(i) || !graph_.live(i)) {
      continue;
    }
    const NodeDef& node = graph_.node(i);
    const auto it = Handlers().find(node.op());
    const auto activation = ActivationOf(node.op(), node);
    if (it == Handlers().end() && !activation) continue;
    Result result = Inspect(i);
    const size_t first = operators_.size();
    if (result.ok()) {
      result = activation ? Unary(i, *activation) : (this->*it->second)(i);
    }
    if (result.ok() && TakesTooMuch(i, first)) {
      operators_.erase(operators_.begin() + first, operators_.end());
      result = Refuse("it is an error for some sizes of its input");
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

const std::unordered_map<std::string, Importer::Handler>& Importer::Handlers() {
  static const auto* const kHandlers =
      new std::unordered_map<std::string, Handler>{
          {"Conv2D", &Importer::Convolution},
          {"DepthwiseConv2dNative", &Importer::Convolution},
          {"_FusedConv2D", &Importer::Convolution},
          {"_FusedDepthwiseConv2dNative", &Importer::Convolution},
          {"Conv2DBackpropInput", &Importer::TransposedConvolution},
          {"MatMul", &Importer::MatMul},
          {"_FusedMatMul", &Importer::MatMul},
          {"BatchMatMul", &Importer::BatchMatMul},
          {"BatchMatMulV2", &Importer::BatchMatMul},
          {"Einsum", &Importer::Einsum},
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
          {"Tile", &Importer::Tile},
          {"BroadcastTo", &Importer::Spread},
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

Result Importer::Inspect(int i) {
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
  // A mean of rows is a sequence of columns.
  const Shape* result = graph_.shape({i, 0});
  const bool removes_rows = op == "Mean" && result && result->size() == 4 &&
                            !Attr<bool>(node, "keep_dims", false);
  const bool reshapes = Reshapes(node) || removes_rows;
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

bool Importer::TakesTooMuch(int i, size_t first) {
  const std::string& type = graph_.node(i).op();
  if (!Reshapes(graph_.node(i)) && type != "Slice" && type != "BroadcastTo" &&
      type != "Conv2DBackpropInput") {
    return false;  // it asks for no number of images or cells
  }
  for (size_t k = first; k < operators_.size(); ++k) {
    const ImportedOperator& op = operators_[k];
    const Shape* y = graph_.shape(op.output);
    if (!y) continue;
    // A number of images that is written down, of what may be fewer.
    if (graph_.known(op.output, 0) &&
        std::all_of(op.inputs.begin(), op.inputs.end(), [&](TensorRef t) {
          return graph_.fixed(t, 0) && !graph_.known(t, 0);
        })) {
      return true;
    }
    // The same of rows and columns, of all of them where they are counted.
    for (const TensorRef& t : op.inputs) {
      const Shape* x = graph_.shape(t);
      if (!x || x->size() != 4) continue;
      const bool counts = Reshapes(graph_.node(i));
      for (int d : {1, 2}) {
        if (y->size() != 4) {
          if (graph_.fixed(t, d) && !graph_.known(t, d)) return true;
        } else if (!graph_.known(t, d) && graph_.known(op.output, d) &&
                   (!counts || graph_.known(op.output, 3 - d))) {
          return true;
        }
      }
    }
  }
  return false;
}

bool Selection::IsKnown() const {
  return compares == "Greater" || compares == "GreaterEqual" ||
         compares == "Less" || compares == "LessEqual";
}

bool Selection::Holds(double x) const {
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
