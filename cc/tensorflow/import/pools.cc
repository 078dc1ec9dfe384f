// Handlers that import TensorFlow's poolings, reductions, softmax and LRN.
#include <algorithm>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

Result Pool(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  if (!in.InputShape(i, 0, {4})) return RefuseShape();
  ImportedOperator op = in.Make(i, OperatorType::kPool, {in.Input(i, 0)});
  op.op.pool = node.op() == "MaxPool" ? PoolKind::kMax : PoolKind::kAvg;
  if (!Spatial(Attr<std::vector<int64_t>>(node, "ksize", {}), in.layout(),
               &op.op.kernel) ||
      !Spatial(Attr<std::vector<int64_t>>(node, "strides", {}), in.layout(),
               &op.op.strides) ||
      !ReadPadding(node, in.layout(), &op.op.padding)) {
    return Refuse(Reason::kDimension,
                  "the node pools the batch or the channels");
  }
  const Padding& p = op.op.padding;
  if (std::max(p.top, p.bottom) >= op.op.kernel[0] ||
      std::max(p.left, p.right) >= op.op.kernel[1]) {
    return Refuse(Reason::kAttribute,
                  "the padding is not smaller than the window");
  }
  return in.Emit(std::move(op));
}

// Emits a sum over the dimension that a Pack has added, as the sum of the
// packed tensors.
Result SumOfPack(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  const NodeDef& node = graph.node(i);
  const int pack = in.Input(i, 0).node;
  const Shape* shape = shapes.shape({i, 0});
  auto axes = Integers(in.Constant(i, 1));
  if (node.op() != "Sum" || graph.node(pack).op() != "Pack" || !shape ||
      !axes || axes->size() != 1 || graph.inputs(pack).size() < 2 ||
      Attr<bool>(node, "keep_dims", false)) {
    return Refuse(Reason::kPattern,
                  "the node is not the sum of a list of tensors");
  }
  axes->push_back(Attr<int64_t>(graph.node(pack), "axis", 0));
  for (int64_t& axis : *axes) {
    if (axis < 0) axis += RankOf(*shape, in.layout()) + 1;
  }
  if ((*axes)[0] != (*axes)[1])
    return Refuse(Reason::kDimension,
                  "the sum is not over the axis at which tensors are packed");
  std::vector<TensorRef> tensors;
  for (size_t k = 0; k < graph.inputs(pack).size(); ++k) {
    const TensorRef t = in.Input(pack, k);
    if (!in.InputShape(pack, k, {2, 4}) || !shapes.same_shape(t, {i, 0}) ||
        layouts.layout(t) != layouts.layout({i, 0})) {
      return RefuseShape();
    }
    tensors.push_back(t);
  }
  ImportedOperator op = in.Make(i, OperatorType::kAdd, std::move(tensors));
  op.nodes.push_back(pack);
  return in.Emit(std::move(op));
}

// Emits the mean over all rows, or over all columns, as an average pooling
// whose window is as high (or wide) as the image. This height (or width) must
// be fixed.
Result MeanOfRows(ImportContext& in, int i, const std::vector<int64_t>& axes) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  const NodeDef& node = graph.node(i);
  const TensorRef x = in.Input(i, 0), y = {i, 0};
  const Shape* shape = shapes.shape(x);
  if (node.op() != "Mean" || axes.size() != 1 || shape->size() != 4 ||
      in.layout() == Layout::kSequence || axes[0] < 1 || axes[0] > 2) {
    return Refuse(Reason::kDimension,
                  "the node is not the mean of rows or columns");
  }
  const int axis = static_cast<int>(axes[0]);
  // Only means are imported in this way. A reduction to the maximum returns NaN
  // if a number is NaN, but a max pooling ignores NaN.
  const bool keeps = Attr<bool>(node, "keep_dims", false);
  if (!shapes.fixed(x, axis) || layouts.layout(x) != Layout::kChannelsLast ||
      !(keeps ? layouts.layout(y) == Layout::kChannelsLast
              : axis == 1 && layouts.layout(y) == Layout::kSequence)) {
    return Refuse(
        Reason::kDimension,
        "the result is not an image, or the number of averaged pixels varies");
  }
  ImportedOperator op = in.Make(i, OperatorType::kPool, {x});
  op.op.pool = PoolKind::kAvg;
  op.op.kernel = {1, 1};
  op.op.kernel[axis - 1] = (*shape)[axis];
  op.op.strides = {1, 1};
  op.op.padding.type = PaddingType::kValid;
  return in.Emit(std::move(op));
}

Result Reduce(ImportContext& in, int i) {
  if (SumOfPack(in, i).ok()) return absl::OkStatus();
  const NodeDef& node = in.graph().node(i);
  auto axes = Integers(in.Constant(i, 1));
  const Shape* x = in.InputShape(i, 0, {2, 4});
  if (!axes) return RefuseVarying("the axes of the reduction");
  if (!x) return RefuseShape();
  for (int64_t& axis : *axes) axis = LogicalAxis(axis, *x, in.layout());
  // A sequence is an image of height 1, so a reduction over its width may also
  // include its height.
  if (in.layout() == Layout::kSequence && *axes == std::vector<int64_t>{2}) {
    axes->push_back(1);
  }
  std::sort(axes->begin(), axes->end());
  const bool keeps = Attr<bool>(node, "keep_dims", false);
  if (MeanOfRows(in, i, *axes).ok()) return absl::OkStatus();
  const bool channels =
      *axes == std::vector<int64_t>{static_cast<int64_t>(x->size()) - 1};
  if (channels ? !keeps : *axes != std::vector<int64_t>{1, 2}) {
    return Refuse(Reason::kDimension,
                  "the engine does not support reductions over these axes");
  }
  ImportedOperator op =
      in.Make(i, channels ? OperatorType::kReduce : OperatorType::kGlobalPool,
              {in.Input(i, 0)});
  op.op.pool = node.op() == "Max"    ? PoolKind::kMax
               : node.op() == "Mean" ? PoolKind::kAvg
                                     : PoolKind::kSum;
  op.op.keep_dims = keeps && !channels;
  return in.Emit(std::move(op));
}

Result Softmax(ImportContext& in, int i) {
  const Shape* x = in.InputShape(i, 0, {2, 4});
  if (!x || (in.layout() == Layout::kChannelsFirst && x->size() == 4)) {
    return Refuse(Reason::kDimension, "the softmax is not over channels");
  }
  return in.Emit(in.Make(i, OperatorType::kSoftmax, {in.Input(i, 0)}));
}

Result Lrn(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  if (!in.InputShape(i, 0, {4})) return RefuseShape();
  ImportedOperator op = in.Make(i, OperatorType::kLrn, {in.Input(i, 0)});
  op.op.depth_radius = Attr<int64_t>(node, "depth_radius", 5);
  op.op.normalization = {Attr<float>(node, "bias", 1.0f),
                         Attr<float>(node, "alpha", 1.0f),
                         Attr<float>(node, "beta", 0.5f)};
  return in.Emit(std::move(op));
}

}  // namespace

HandlerTable PoolHandlers() {
  return {
      {"MaxPool", Pool}, {"AvgPool", Pool}, {"Mean", Reduce},
      {"Max", Reduce},   {"Sum", Reduce},   {"Softmax", Softmax},
      {"LRN", Lrn},
  };
}

}  // namespace ios::tf
