// Norms of pixels, images and groups of channels as Keras writes them, and
// shuffled channels.
#include <algorithm>
#include <numeric>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

namespace {

// Whether a tensor has one number for each channel, given as [C] or, as they
// are in groups, as [groups, C / groups].
bool IsOfChannels(const Tensor& values, int64_t groups, int64_t channels) {
  Shape shape, wanted = {groups, channels / groups};
  for (const auto& dim : values.shape()) shape.push_back(dim.size);
  for (Shape* s : {&shape, &wanted}) {
    s->erase(s->begin(), std::find_if(s->begin(), s->end(),
                                      [](int64_t size) { return size != 1; }));
  }
  return shape == wanted;
}

}  // namespace

std::optional<Normalization> Importer::NormOf(int node, size_t rank) {
  const Shape* shape = graph_.shape({node, 0});
  const std::string& op = graph_.node(node).op();
  if ((op != "AddV2" && op != "Add" && op != "Mul" && op != "RealDiv") ||
      !shape || RankOf(*shape) != rank) {
    return std::nullopt;
  }
  return MatchNormalization(&graph_, node);
}

Result Importer::EmitNorm(TensorRef x, const Normalization& norm,
                          ImportedOperator op) {
  const Shape& shape = *graph_.shape(x);
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
                          : PerChannel(values, shape).has_value();
    if (!fits) return Refuse("its scale and shift are not of channels");
    op.weights[k] = *Repeated(*values, channels);
  }
  op.nodes.insert(op.nodes.end(), norm.nodes.begin(), norm.nodes.end());
  return Emit(std::move(op));
}

Result Importer::Norm(int i) {
  const Shape* x = graph_.shape({i, 0});
  if (!x) return Refuse("unknown shape");
  const int64_t rank = RankOf(*x);
  auto norm = NormOf(i, rank);
  if (!norm || !graph_.same_shape(norm->x, {i, 0})) {
    return Refuse("it is no norm");
  }
  if (layout_ == Layout::kChannelsFirst) {
    for (int64_t& axis : norm->axes) axis = LogicalAxis(axis, *x);
    std::sort(norm->axes.begin(), norm->axes.end());
  }
  ImportedOperator op = Make(i, OperatorType::kNormalize, {norm->x});
  // Of pixels, of images, and of each channel of images.
  std::vector<int64_t> image(rank - 1);
  std::iota(image.begin(), image.end(), 1);
  if (norm->axes != std::vector<int64_t>{rank - 1}) {
    op.op.whole_images = true;
    if (norm->axes != image) {
      image.pop_back();
      op.op.groups = x->back();
      if (norm->axes != image || !graph_.fixed({i, 0}, x->size() - 1)) {
        return Refuse("it is no norm of pixels, images or channels");
      }
    }
  }
  return EmitNorm(norm->x, *norm, std::move(op));
}

Result Importer::GroupNorm(int i) {
  const int last = graph_.Input(i, 0).node;
  auto norm = NormOf(last, 5);
  const bool flat = !norm;  // [N,cells,groups,C/groups]
  if (flat) norm = NormOf(last, 4);
  using Axes = std::vector<int64_t>;
  if (!norm || norm->axes != (flat ? Axes{1, 3} : Axes{1, 2, 4}) ||
      graph_.node(norm->x.node).op() != "Reshape") {
    return Refuse("it is no group norm");
  }
  const TensorRef x = graph_.Input(norm->x.node, 0);
  const Shape* grouped = graph_.shape(norm->x);
  const size_t groups = flat ? 2 : 3;
  const auto keeps_cells = [&](const Shape& image, const Shape& in_groups) {
    return image[0] == in_groups[0] &&
           (flat ? image[1] * image[2] == in_groups[1]
                 : image[1] == in_groups[1] && image[2] == in_groups[2]);
  };
  if (!graph_.shape(x) || graph_.shape(x)->size() != 4 ||
      graph_.channels_first(x) || graph_.channels_first({i, 0}) ||
      !graph_.same_shape(x, {i, 0}) || !graph_.Agree(x, norm->x, keeps_cells) ||
      !graph_.fixed(norm->x, groups)) {
    return Refuse("it changes the order of cells");
  }
  ImportedOperator op = Make(i, OperatorType::kNormalize, {x});
  op.op.whole_images = true;
  op.op.groups = (*grouped)[groups];
  op.nodes.push_back(norm->x.node);
  return EmitNorm(x, *norm, std::move(op));
}

Result Importer::ChannelShuffle(int i) {
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
  const std::vector<int64_t> wanted = first
                                          ? std::vector<int64_t>{0, 2, 1, 3, 4}
                                          : std::vector<int64_t>{0, 1, 2, 4, 3};
  const size_t groups = first ? 1 : 3;
  if (*order != wanted || !shape || shape->size() != 5 || !graph_.shape(x) ||
      graph_.shape(x)->size() != 4 ||
      graph_.layout(x) != graph_.layout({i, 0}) ||
      graph_.layout(x) == Layout::kSequence || !graph_.same_shape(x, {i, 0}) ||
      !graph_.fixed(grouped, groups) || !graph_.fixed(grouped, groups + 1)) {
    return Refuse("it shuffles other dimensions than channels");
  }
  const auto keeps_others = [&](const Shape& a, const Shape& b) {
    return a[0] == b[0] && a[1] == b[first ? 3 : 1] && a[2] == b[first ? 4 : 2];
  };
  if (!graph_.Agree(x, grouped, keeps_others)) {
    return Refuse("it shuffles other dimensions than channels");
  }
  ImportedOperator op = Make(i, OperatorType::kChannelShuffle, {x});
  op.op.groups = (*shape)[groups];
  op.nodes = {grouped.node, turned.node, i};
  return Emit(std::move(op));
}

}  // namespace ios::tf
