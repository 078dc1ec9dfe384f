// Handlers of concats, pads, rolls, slices, reshapes, transposes and casts.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "cc/core/limits.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"
#include "cc/tensorflow/shapes/layout_map.h"

namespace ios::tf {
namespace {

using Kind = ImportedOperator::Kind;
using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;

Result Concat(ImportContext& in, int i) {
  const int n = static_cast<int>(in.graph().inputs(i).size()) - 1;
  const auto axis = Integers(in.Constant(i, n));
  const Shape* x = in.InputShape(i, 0, {2, 4});
  if (!axis || axis->size() != 1) return RefuseVarying("the axis");
  if (!x) return RefuseShape();
  if (LogicalAxis((*axis)[0], *x, in.layout()) + 1 !=
      static_cast<int64_t>(x->size())) {
    return Refuse(Reason::kDimension, "the node does not concatenate channels");
  }
  std::vector<TensorRef> tensors;
  for (int k = 0; k < n; ++k) {
    if (!in.InputShape(i, k, {x->size()})) return RefuseShape();
    tensors.push_back(in.Input(i, k));
  }
  return in.Emit(in.Make(i, OperatorType::kConcat, std::move(tensors)));
}

Result Pad(ImportContext& in, int i) {
  const auto of_dimensions = Integers(in.Constant(i, 1));
  if (!of_dimensions) return RefuseVarying("the padding");
  if (!in.InputShape(i, 0, {4})) return RefuseShape();
  const std::vector<int64_t> pads = Logical(*of_dimensions, in.layout(), 2);
  if (pads.size() != 8 || pads[0] || pads[1]) {
    return Refuse(Reason::kDimension, "the node pads the batch");
  }
  ImportedOperator op = in.Make(i, OperatorType::kPad, {in.Input(i, 0)});
  if (in.graph().node(i).op() == "MirrorPad") {
    const bool reflect =
        Attr<std::string>(in.graph().node(i), "mode", "") == "REFLECT";
    if (pads[6] || pads[7])
      return Refuse(Reason::kDimension, "the node mirrors channels");
    op.op.pad_mode = reflect ? PadMode::kReflect : PadMode::kSymmetric;
  } else if (in.graph().inputs(i).size() > 2) {
    const std::optional<float> value = Scalar(in.Constant(i, 2));
    if (!value || !std::isfinite(*value)) {
      return Refuse(Reason::kOperandNotConstant,
                    "the padding value is not a finite constant");
    }
    op.op.pad_value = *value;
  }
  op.op.channel_padding = {pads[6], pads[7]};
  op.op.padding = {PaddingType::kExplicit, pads[2], pads[3], pads[4], pads[5]};
  return in.Emit(std::move(op));
}

// Imports a Roll as a Pad that wraps around: it adds cells at one end that
// equal the cells that it cuts off at the other end.
Result Roll(ImportContext& in, int i) {
  const auto shifts = Integers(in.Constant(i, 1));
  const auto axes = Integers(in.Constant(i, 2));
  const Shape* x = in.InputShape(i, 0, {4});
  if (!x || !shifts || !axes || shifts->size() != axes->size()) {
    return Refuse(Reason::kOperandNotConstant,
                  "the shape or the shift is not a constant");
  }
  std::array<int64_t, 2> sums = {};
  for (size_t k = 0; k < axes->size(); ++k) {
    const int64_t axis = LogicalAxis((*axes)[k], *x, in.layout());
    if (axis != 1 && axis != 2) {
      return Refuse(Reason::kDimension, "the node rolls the batch or channels");
    }
    int64_t shift = (*shifts)[k];
    if (in.shapes().known(in.Input(i, 0), axis)) shift %= (*x)[axis];
    int64_t& sum = sums[axis - 1];
    if (std::abs(shift) > kMaxDimension - std::abs(sum)) {
      return Refuse(Reason::kAttribute, "the node's shift is too large");
    }
    sum += shift;
  }
  ImportedOperator op = in.Make(i, OperatorType::kPad, {in.Input(i, 0)});
  op.op.pad_mode = PadMode::kWrap;
  op.op.padding = {PaddingType::kExplicit, sums[0], -sums[0], sums[1],
                   -sums[1]};
  return in.Emit(std::move(op));
}

Result EmitSlice(ImportContext& in, int i, int port, TensorRef x,
                 int64_t offset, int64_t size) {
  ImportedOperator op = in.Make(i, OperatorType::kSlice, {x});
  if (port > 0) absl::StrAppend(&op.op.name, ":", port);
  op.output = {i, port};
  op.op.offset = offset;
  op.op.size = size;
  return in.Emit(std::move(op));
}

Result Split(ImportContext& in, int i) {
  // Split reads axis and value; SplitV reads value, sizes and axis.
  const bool v = in.graph().node(i).op() == "SplitV";
  const auto axis = Integers(in.Constant(i, v ? 2 : 0));
  const Shape* x = in.InputShape(i, v ? 0 : 1, {2, 4});
  if (!axis || axis->size() != 1) return RefuseVarying("the axis");
  if (in.graph().preserved(i)) {
    return Refuse(Reason::kPartOfOperator,
                  "a caller may fetch the node's results");
  }
  if (!x) return RefuseShape();
  if (LogicalAxis((*axis)[0], *x, in.layout()) + 1 !=
      static_cast<int64_t>(x->size())) {
    return Refuse(Reason::kDimension, "the node does not split channels");
  }
  const int parts = Attr<int64_t>(in.graph().node(i), "num_split", 0);
  int64_t offset = 0;
  for (int port = 0; port < parts; ++port) {
    const Shape* y = in.shapes().shape({i, port});
    if (!y) return RefuseShape();
    if (!in.graph().Consumers({i, port}).empty()) {
      TF_RETURN_IF_ERROR(
          EmitSlice(in, i, port, in.Input(i, v ? 0 : 1), offset, y->back()));
    }
    offset += y->back();
  }
  return absl::OkStatus();
}

// Returns the values of integer operand k if they are the same for every size
// of the graph's inputs. The operand may be a constant, or computed from fixed
// sizes.
std::optional<std::vector<int64_t>> FixedIntegers(const ImportContext& in,
                                                  int i, size_t k) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  if (const Tensor* constant = in.Constant(i, k)) return Integers(constant);
  if (k >= graph.inputs(i).size()) return std::nullopt;
  const TensorRef operand = graph.inputs(i)[k];
  const std::vector<int64_t>* const example = shapes.integers(operand, 0);
  if (!example) return std::nullopt;
  for (int sample = 1; sample < shapes.samples(); ++sample) {
    if (!shapes.shape({i, 0}, sample)) continue;
    const std::vector<int64_t>* here = shapes.integers(operand, sample);
    if (!here || *here != *example) return std::nullopt;
  }
  return *example;
}

// Emits a slice of data input 0 that starts at `begin` and has the size of the
// node's output. `begin` is in the graph's order of dimensions; a negative
// number counts from the end. The slice must be a range of channels, or cut
// cells off the borders of height and width. The number of these cells must be
// the same for every size of the graph's inputs.
Result EmitRange(ImportContext& in, int i, const std::vector<int64_t>& begin) {
  const ShapeTable& shapes = in.shapes();
  const TensorRef input = in.Input(i, 0), output = {i, 0};
  std::vector<std::array<int64_t, 2>> cut;  // cells at both ends, per dimension
  for (int sample = 0; sample < shapes.samples(); ++sample) {
    const Shape *x = shapes.shape(input, sample),
                *y = shapes.shape(output, sample);
    if ((!x || !y) && sample >= shapes.required_samples()) continue;
    if (!x || !y || x->size() != y->size()) return RefuseShape();
    // At small sizes, the output may be empty. Even then its size must be the
    // input's size minus the cells that are cut off, or 0 if that is negative.
    if (sample >= shapes.required_samples() && NumElements(*y) == 0) {
      for (size_t d = 0; d < x->size(); ++d) {
        const int64_t left = (*x)[d] - cut[d][0] - cut[d][1];
        if ((*y)[d] != std::max<int64_t>(left, 0)) {
          return Refuse(Reason::kSlice,
                        "the slice depends on the input's size");
        }
      }
      continue;
    }
    const std::vector<int64_t> first = Logical(begin, in.layout());
    std::vector<std::array<int64_t, 2>> here;
    for (size_t d = 0; d < x->size(); ++d) {
      const int64_t size = (*x)[d];
      const int64_t from = std::clamp<int64_t>(
          first[d] < 0 ? first[d] + size : first[d], 0, size);
      here.push_back({from, size - from - (*y)[d]});
    }
    if (sample == 0) cut = here;
    if (here != cut)
      return Refuse(Reason::kSlice, "the slice depends on the input's size");
  }
  const Shape& y = *shapes.shape(output);
  const std::array<int64_t, 2> nothing = {0, 0};
  const size_t last = cut.size() - 1;
  if (std::find(y.begin(), y.end(), 0) != y.end() || cut[0] != nothing) {
    return Refuse(Reason::kSlice, "the slice cuts the batch or is empty");
  }
  if (cut.size() == 2 || (cut[1] == nothing && cut[2] == nothing)) {
    return EmitSlice(in, i, 0, input, cut[last][0], y[last]);
  }
  if (cut[3] != nothing) {
    return Refuse(Reason::kSlice,
                  "the slice cuts channels and other dimensions");
  }
  ImportedOperator op = in.Make(i, OperatorType::kPad, {input});
  op.op.padding = {PaddingType::kExplicit, -cut[1][0], -cut[1][1], -cut[2][0],
                   -cut[2][1]};
  return in.Emit(std::move(op));
}

Result Slice(ImportContext& in, int i) {
  const Shape* x = in.InputShape(i, 0, {2, 4});
  const auto begin = FixedIntegers(in, i, 1);
  if (!begin) return RefuseVarying("the begin of the slice");
  if (!x || begin->size() != RankOf(*x, in.layout())) return RefuseShape();
  // Unlike StridedSlice, Slice reports an error if the image is smaller than
  // the range.
  const TensorRef input = in.Input(i, 0);
  const auto size = Integers(in.Constant(i, 2));
  const auto from = Logical(*begin, in.layout());
  const auto most = Logical(size.value_or(Shape()), in.layout(), 1, -1);
  for (size_t d = 1; x->size() == 4 && d < 3; ++d) {
    const bool asks = from[d] > 0 || (d < most.size() && most[d] >= 0);
    if (asks && !in.shapes().known(input, d)) {
      return Refuse(
          Reason::kRejectedSizes,
          "TensorFlow rejects images that are too small, and the size "
          "of the image varies");
    }
  }
  return EmitRange(in, i, *begin);
}

Result Transpose(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  const TensorRef x = in.Input(i, 0), y = {i, 0};
  const Layout from = layouts.layout(x), to = layouts.layout(y);
  const Permutation permutation = PermutationOf(&graph, i);
  // Keras adds a Transpose that changes nothing before each Dense layer that
  // reads feature maps.
  if (permutation == Permutation::kNone && from == to && !graph.preserved(i) &&
      !graph.waits(i)) {
    graph.Alias(i, x);
    return absl::OkStatus();
  }
  const Shape* shape = shapes.shape(x);
  if (!shape || shape->size() != 4 ||
      !((permutation == Permutation::kToChannelsFirst &&
         from == Layout::kChannelsLast && to == Layout::kChannelsFirst) ||
        (permutation == Permutation::kToChannelsLast &&
         from == Layout::kChannelsFirst && to == Layout::kChannelsLast))) {
    return Refuse(Reason::kTranspose,
                  "the transpose is not between NHWC and NCHW");
  }
  return in.Emit(in.Make(i, Kind::kLayout, {x}));
}

Result Reshape(ImportContext& in, int i) {
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  if (GroupNorm(in, i).ok() || ChannelShuffle(in, i).ok()) {
    return absl::OkStatus();
  }
  const TensorRef x = in.Input(i, 0), y = {i, 0};
  const Shape *from = in.InputShape(i, 0, {2, 4}), *to = shapes.shape(y);
  if (!from || !to || (to->size() != 2 && to->size() != 4)) {
    return RefuseShape();
  }
  // A reshape between [N,W,C] and [N,1,W,C] only changes the layout.
  if (shapes.same_shape(x, y) && !layouts.channels_first(x) &&
      !layouts.channels_first(y)) {
    return in.Emit(in.Make(i, Kind::kLayout, {x}));
  }
  // Flattening turns maps into the features of each image; see
  // FlattenIntoMatMul.
  const bool flattens =
      from->size() == 4 && to->size() == 2 && shapes.fixed_size(x);
  // Unflattening turns features back into maps; see KeepMaps.
  const bool unflattens =
      from->size() == 2 && to->size() == 4 && shapes.fixed_size(y);
  const auto keeps_values = [&](const Shape& a, const Shape& b) {
    if (NumElements(a) != NumElements(b)) return false;
    if ((flattens || unflattens) && a[0] == b[0]) return true;  // same batch
    return a.back() == b.back() && !(flattens && layouts.channels_first(x));
  };
  if (!shapes.Agree(x, y, keeps_values)) {
    return Refuse(Reason::kReshape, "the reshape mixes images or channels");
  }
  for (const TensorRef& t : {x, y}) {
    const Shape& shape = *shapes.shape(t);
    if (layouts.channels_first(t) && !(t == x && flattens) &&
        (shape[1] != 1 || shape[2] != 1 || !shapes.fixed_size(t))) {
      return Refuse(Reason::kReshape,
                    "the reshape changes the order of pixels");
    }
  }
  ImportedOperator op = in.Make(i, Kind::kReshape, {x});
  op.from = layouts.layout(x);
  return in.Emit(std::move(op));
}

Result StridedSlice(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  const Shape* x = in.InputShape(i, 0, {2, 4});
  const auto spec = FixedIntegers(in, i, 1);
  const auto strides = Integers(in.Constant(i, 3));
  if (!x || !spec || !strides || strides->size() != spec->size()) {
    return Refuse(Reason::kSlice,
                  "the input's shape or the range of the slice is not known");
  }
  if (ChangesRank(node)) {
    if (std::count(strides->begin(), strides->end(), 1) !=
        static_cast<int64_t>(strides->size())) {
      return Refuse(Reason::kSlice, "the slice has strides");
    }
    return Reshape(in, i);  // refuses slices that drop elements
  }
  const int64_t mask = Attr<int64_t>(node, "begin_mask", 0);
  const int64_t ellipsis = Attr<int64_t>(node, "ellipsis_mask", 0);
  // The specification may omit dimensions, by an ellipsis or at the end.
  const size_t rank = RankOf(*x, in.layout());
  std::vector<int64_t> begin(rank, 0);
  size_t d = 0;
  for (size_t k = 0; k < spec->size(); ++k, ++d) {
    if (ellipsis >> k & 1) {
      d += rank - spec->size();
      continue;
    }
    if (d >= rank || (*strides)[k] != 1)
      return Refuse(Reason::kSlice, "the slice has strides");
    if (!(mask >> k & 1)) begin[d] = (*spec)[k];
  }
  return EmitRange(in, i, begin);
}

Result Cast(ImportContext& in, int i) {
  const TensorRef x = in.Input(i, 0);
  const auto from = ToDataType(in.shapes().dtype(x));
  if (!from)
    return Refuse(Reason::kDataType,
                  "the engine does not support the input's data type");
  return in.Emit(in.Make(i, Kind::kCast, {x}));
}

}  // namespace

HandlerTable PartHandlers() {
  return {
      {"ConcatV2", Concat},
      {"Pad", Pad},
      {"PadV2", Pad},
      {"MirrorPad", Pad},
      {"Roll", Roll},
      {"Split", Split},
      {"SplitV", Split},
      {"Slice", Slice},
      {"StridedSlice", StridedSlice},
      {"Transpose", Transpose},
      {"Reshape", Reshape},
      {"Squeeze", Reshape},
      {"ExpandDims", Reshape},
      {"Cast", Cast},
  };
}

}  // namespace ios::tf
