// Poolings, reductions, softmax and LRN.
#include <algorithm>
#include <set>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

Result Importer::Pool(int i) {
  const NodeDef& node = graph_.node(i);
  if (!InputShape(i, 0, {4})) return Refuse("unknown shape");
  ImportedOperator op = Make(i, OperatorType::kPool, {graph_.Input(i, 0)});
  op.op.pool = node.op() == "MaxPool" ? PoolKind::kMax : PoolKind::kAvg;
  if (!Spatial(Attr<std::vector<int64_t>>(node, "ksize", {}), &op.op.kernel) ||
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

Result Importer::Reduce(int i) {
  if (SumOfPack(i).ok()) return absl::OkStatus();
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
  if (MeanOfRows(i, *axes).ok()) return absl::OkStatus();
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

Result Importer::MeanOfRows(int i, const std::vector<int64_t>& axes) {
  const NodeDef& node = graph_.node(i);
  const TensorRef x = graph_.Input(i, 0), y = {i, 0};
  const Shape* shape = graph_.shape(x);
  if (node.op() != "Mean" || axes.size() != 1 || shape->size() != 4 ||
      layout_ == Layout::kSequence || axes[0] < 1 || axes[0] > 2) {
    return Refuse("it is no mean of rows or columns");
  }
  const int axis = static_cast<int>(axes[0]);
  // A maximum would have to keep NaN, which a pooling does not.
  const bool keeps = Attr<bool>(node, "keep_dims", false);
  if (!graph_.fixed(x, axis) || graph_.layout(x) != Layout::kChannelsLast ||
      !(keeps ? graph_.layout(y) == Layout::kChannelsLast
              : axis == 1 && graph_.layout(y) == Layout::kSequence)) {
    return Refuse("its result is no image, or of a size that varies");
  }
  ImportedOperator op = Make(i, OperatorType::kPool, {x});
  op.op.pool = PoolKind::kAvg;
  op.op.kernel = {1, 1};
  op.op.kernel[axis - 1] = (*shape)[axis];
  op.op.strides = {1, 1};
  op.op.padding.type = PaddingType::kValid;
  return Emit(std::move(op));
}

Result Importer::Softmax(int i) {
  const Shape* x = InputShape(i, 0, {2, 4});
  if (!x || (layout_ == Layout::kChannelsFirst && x->size() == 4)) {
    return Refuse("it is not over channels");
  }
  return Emit(Make(i, OperatorType::kSoftmax, {graph_.Input(i, 0)}));
}

Result Importer::Lrn(int i) {
  const NodeDef& node = graph_.node(i);
  if (!InputShape(i, 0, {4})) return Refuse("unknown shape");
  ImportedOperator op = Make(i, OperatorType::kLrn, {graph_.Input(i, 0)});
  op.op.depth_radius = Attr<int64_t>(node, "depth_radius", 5);
  op.op.normalization = {Attr<float>(node, "bias", 1.0f),
                         Attr<float>(node, "alpha", 1.0f),
                         Attr<float>(node, "beta", 0.5f)};
  return Emit(std::move(op));
}

}  // namespace ios::tf
