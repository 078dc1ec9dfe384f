// Concats, pads, slices, reshapes, transposes and casts.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/layouts.h"
#include "cc/tensorflow/import/handlers.h"

namespace ios::tf {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

Result Importer::Concat(int i) {
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

Result Importer::Pad(int i) {
  const auto of_dimensions = Integers(Constant(i, 1));
  if (!InputShape(i, 0, {4}) || !of_dimensions) return Refuse("unknown shape");
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
  op.op.padding = {PaddingType::kExplicit, pads[2], pads[3], pads[4], pads[5]};
  return Emit(std::move(op));
}

Result Importer::Split(int i) {
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

void Importer::EmitSlice(int i, int port, TensorRef x, int64_t offset,
                         int64_t size) {
  ImportedOperator op = Make(i, OperatorType::kSlice, {x});
  if (port > 0) absl::StrAppend(&op.op.name, ":", port);
  op.output = {i, port};
  op.op.offset = offset;
  op.op.size = size;
  operators_.push_back(std::move(op));
}

Result Importer::Slice(int i) {
  const Shape* x = InputShape(i, 0, {2, 4});
  const auto begin = FixedIntegers(i, 1);
  if (!x || !begin || begin->size() != RankOf(*x)) {
    return Refuse("unknown shape");
  }
  // Unlike StridedSlice it takes no image that is smaller than it says.
  const TensorRef input = graph_.Input(i, 0);
  const auto size = Integers(Constant(i, 2));
  const std::vector<int64_t> from = Logical(*begin),
                             most = Logical(size.value_or(Shape()), 1, -1);
  for (size_t d = 1; x->size() == 4 && d < 3; ++d) {
    const bool asks = from[d] > 0 || (d < most.size() && most[d] >= 0);
    if (asks && !graph_.known(input, d)) {
      return Refuse("it is an error for images that are too small");
    }
  }
  return EmitRange(i, *begin);
}

Result Importer::StridedSlice(int i) {
  const NodeDef& node = graph_.node(i);
  const Shape* x = InputShape(i, 0, {2, 4});
  const auto spec = FixedIntegers(i, 1);
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

Result Importer::EmitRange(int i, const std::vector<int64_t>& begin) {
  const TensorRef input = graph_.Input(i, 0), output = {i, 0};
  std::vector<std::array<int64_t, 2>> cut;  // of each dimension, both ends
  for (int probe = 0; probe < graph_.probes(); ++probe) {
    const Shape *x = graph_.shape(input, probe),
                *y = graph_.shape(output, probe);
    if ((!x || !y) && probe >= graph_.required_probes()) continue;
    if (!x || !y || x->size() != y->size()) return Refuse("unknown shape");
    // Small sizes may leave nothing, of which no cells are missing; but only
    // where what is cut is all there is.
    if (probe >= graph_.required_probes() && NumElements(*y) == 0) {
      for (size_t d = 0; d < x->size(); ++d) {
        const int64_t left = (*x)[d] - cut[d][0] - cut[d][1];
        if ((*y)[d] != std::max<int64_t>(left, 0)) {
          return Refuse("what it cuts depends on the input's size");
        }
      }
      continue;
    }
    const std::vector<int64_t> first = Logical(begin);
    std::vector<std::array<int64_t, 2>> here;
    for (size_t d = 0; d < x->size(); ++d) {
      const int64_t size = (*x)[d];
      const int64_t from = std::clamp<int64_t>(
          first[d] < 0 ? first[d] + size : first[d], 0, size);
      here.push_back({from, size - from - (*y)[d]});
    }
    if (probe == 0) cut = here;
    if (here != cut) return Refuse("what it cuts depends on the input's size");
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

Result Importer::Transpose(int i) {
  const TensorRef x = graph_.Input(i, 0), y = {i, 0};
  const Layout from = graph_.layout(x), to = graph_.layout(y);
  const Permutation permutation = PermutationOf(&graph_, i);
  // Keras writes one that changes nothing in front of every Dense of maps.
  if (permutation == Permutation::kNone && from == to && !graph_.preserved(i) &&
      !graph_.waits(i)) {
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

Result Importer::Reshape(int i) {
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
  // From maps to the features of each image: see FlattenIntoMatMul.
  const bool flattens =
      from->size() == 4 && to->size() == 2 && graph_.fixed_size(x);
  // And back: see KeepMaps.
  const bool unflattens =
      from->size() == 2 && to->size() == 4 && graph_.fixed_size(y);
  const auto keeps_values = [&](const Shape& a, const Shape& b) {
    if (NumElements(a) != NumElements(b)) return false;
    if ((flattens || unflattens) && a[0] == b[0]) return true;  // each image
    return a.back() == b.back() && !(flattens && graph_.channels_first(x));
  };
  if (!graph_.Agree(x, y, keeps_values)) {
    return Refuse("it is no change between [N,1,1,C] and [N,C]");
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

Result Importer::Cast(int i) {
  const auto from = ToDataType(graph_.dtype(graph_.Input(i, 0)));
  if (!from) return Refuse("it converts integers");
  TF_RETURN_IF_ERROR(CheckDtype(*from));
  ImportedOperator op =
      Make(i, OperatorType::kActivation, {graph_.Input(i, 0)});
  op.kind = ImportedOperator::Kind::kCast;
  return Emit(std::move(op));
}

}  // namespace ios::tf
