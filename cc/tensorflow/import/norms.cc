// Handlers of channel shuffles, and of norms (over a pixel, an image or a group
// of channels) in the form that Keras writes.
#include <algorithm>
#include <numeric>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"
#include "cc/tensorflow/import/normalization.h"

namespace ios::tf {
namespace {

using ::tensorflow::Tensor;

// Returns true if a tensor has one number for each channel: its shape is
// [groups, C / groups], or [C] if there is one group, after leading dimensions
// of 1.
bool IsOfChannels(const Tensor& values, int64_t groups, int64_t channels) {
  Shape shape, wanted = {groups, channels / groups};
  for (const auto& dim : values.shape()) shape.push_back(dim.size);
  for (Shape* s : {&shape, &wanted}) {
    s->erase(s->begin(), std::find_if(s->begin(), s->end(),
                                      [](int64_t size) { return size != 1; }));
  }
  return shape == wanted;
}

// Returns the norm whose last operation is `node`, or nullopt if the node's
// output does not have this rank.
std::optional<MatchedNorm> NormOf(ImportContext& in, int node, size_t rank) {
  const Shape* shape = in.shapes().shape({node, 0});
  const std::string& op = in.graph().node(node).op();
  if ((op != "AddV2" && op != "Add" && op != "Mul" && op != "RealDiv") ||
      !shape || RankOf(*shape, in.layout()) != rank) {
    return std::nullopt;
  }
  return MatchNormalization(&in.analyzed(), node);
}

// Emits `op` with the epsilon, scale and shift of `norm`. Scale and shift must
// have one number per channel; for a group norm, their shape must have the
// norm's groups.
Result EmitNorm(ImportContext& in, TensorRef x, const MatchedNorm& norm,
                ImportedOperator op) {
  const Shape& shape = *in.shapes().shape(x);
  const int64_t channels = shape.back();
  const bool in_groups = norm.x != x;
  op.op.epsilon = norm.epsilon;
  op.weights = {std::vector<float>(channels, 1.0f),
                std::vector<float>(channels, 0.0f)};
  for (int k : {0, 1}) {
    const Tensor* values = k == 0 ? norm.scale : norm.shift;
    if (!values) continue;
    const bool fits = in_groups
                          ? ToDataType(values->dtype()) &&
                                (values->NumElements() == 1 ||
                                 IsOfChannels(*values, op.op.groups, channels))
                          : PerChannel(values, shape, in.layout()).has_value();
    if (!fits)
      return Refuse(Reason::kOperandNotConstant,
                    "the scale or shift is not per channel");
    op.weights[k] = *Repeated(*values, channels);
  }
  op.nodes.insert(op.nodes.end(), norm.nodes.begin(), norm.nodes.end());
  return in.Emit(std::move(op));
}

}  // namespace

Result Norm(ImportContext& in, int i) {
  const Shape* x = in.shapes().shape({i, 0});
  if (!x) return RefuseShape();
  const int64_t rank = RankOf(*x, in.layout());
  auto norm = NormOf(in, i, rank);
  if (!norm || !in.shapes().same_shape(norm->x, {i, 0})) {
    return Refuse(Reason::kPattern, "the nodes are not a norm");
  }
  if (in.layout() == Layout::kChannelsFirst) {
    for (int64_t& axis : norm->axes) axis = LogicalAxis(axis, *x, in.layout());
    std::sort(norm->axes.begin(), norm->axes.end());
  }
  ImportedOperator op = in.Make(i, OperatorType::kNormalize, {norm->x});
  // The axes of the mean must be the axes of a pixel, of an image, or of one
  // channel of an image.
  std::vector<int64_t> image(rank - 1);
  std::iota(image.begin(), image.end(), 1);
  if (norm->axes != std::vector<int64_t>{rank - 1}) {
    op.op.per_image = true;
    if (norm->axes != image) {
      image.pop_back();
      op.op.groups = x->back();
      if (norm->axes != image || !in.shapes().fixed({i, 0}, x->size() - 1)) {
        return Refuse(Reason::kDimension,
                      "the norm is not over pixels, images or channels");
      }
    }
  }
  return EmitNorm(in, norm->x, *norm, std::move(op));
}

Result GroupNorm(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  const int last = in.Input(i, 0).node;
  auto norm = NormOf(in, last, 5);
  const bool flat = !norm;  // [N,cells,groups,C/groups]
  if (flat) norm = NormOf(in, last, 4);
  using Axes = std::vector<int64_t>;
  if (!norm || norm->axes != (flat ? Axes{1, 3} : Axes{1, 2, 4}) ||
      graph.node(norm->x.node).op() != "Reshape") {
    return Refuse(Reason::kPattern, "the nodes are not a group norm");
  }
  const TensorRef x = in.Input(norm->x.node, 0);
  const Shape* grouped = shapes.shape(norm->x);
  const size_t groups = flat ? 2 : 3;
  const auto keeps_cells = [&](const Shape& image, const Shape& in_groups) {
    return image[0] == in_groups[0] &&
           (flat ? image[1] * image[2] == in_groups[1]
                 : image[1] == in_groups[1] && image[2] == in_groups[2]);
  };
  if (!shapes.shape(x) || shapes.shape(x)->size() != 4 ||
      layouts.channels_first(x) || layouts.channels_first({i, 0}) ||
      !shapes.same_shape(x, {i, 0}) || !shapes.Agree(x, norm->x, keeps_cells) ||
      !shapes.fixed(norm->x, groups)) {
    return Refuse(Reason::kReshape, "the reshape changes the order of pixels");
  }
  ImportedOperator op = in.Make(i, OperatorType::kNormalize, {x});
  op.op.per_image = true;
  op.op.groups = (*grouped)[groups];
  op.nodes.push_back(norm->x.node);
  return EmitNorm(in, x, *norm, std::move(op));
}

Result ChannelShuffle(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  const TensorRef turned = in.Input(i, 0);
  if (graph.node(turned.node).op() != "Transpose") {
    return Refuse(Reason::kPattern, "the nodes are not a channel shuffle");
  }
  const TensorRef grouped = in.Input(turned.node, 0);
  const auto order = Integers(in.Constant(turned.node, 1));
  if (!order || graph.node(grouped.node).op() != "Reshape") {
    return Refuse(Reason::kPattern, "the nodes are not a channel shuffle");
  }
  const TensorRef x = in.Input(grouped.node, 0);
  const Shape* shape = shapes.shape(grouped);
  const bool first = layouts.channels_first(x);
  const std::vector<int64_t> wanted = first
                                          ? std::vector<int64_t>{0, 2, 1, 3, 4}
                                          : std::vector<int64_t>{0, 1, 2, 4, 3};
  const size_t groups = first ? 1 : 3;
  if (*order != wanted || !shape || shape->size() != 5 || !shapes.shape(x) ||
      shapes.shape(x)->size() != 4 ||
      layouts.layout(x) != layouts.layout({i, 0}) ||
      layouts.layout(x) == Layout::kSequence || !shapes.same_shape(x, {i, 0}) ||
      !shapes.fixed(grouped, groups) || !shapes.fixed(grouped, groups + 1)) {
    return Refuse(Reason::kDimension,
                  "the nodes shuffle other dimensions than channels");
  }
  const auto keeps_others = [&](const Shape& a, const Shape& b) {
    return a[0] == b[0] && a[1] == b[first ? 3 : 1] && a[2] == b[first ? 4 : 2];
  };
  if (!shapes.Agree(x, grouped, keeps_others)) {
    return Refuse(Reason::kDimension,
                  "the nodes shuffle other dimensions than channels");
  }
  ImportedOperator op = in.Make(i, OperatorType::kChannelShuffle, {x});
  op.op.groups = (*shape)[groups];
  op.nodes = {grouped.node, turned.node, i};
  return in.Emit(std::move(op));
}

}  // namespace ios::tf
