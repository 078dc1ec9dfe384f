// Handlers of resizes, of operations that repeat cells, and of SpaceToDepth and
// DepthToSpace.
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/handlers.h"
#include "cc/tensorflow/shapes/shape_arithmetic.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// Sets the output's height and width in `op` from the shape operand `sizes`,
// such that they are correct for every size of the first input of `op`.
Result ReadOutputSize(ImportContext& in, int i, const SizeExpressions& sizes,
                      ImportedOperator* op) {
  const ShapeTable& shapes = in.shapes();
  const TensorRef x = SizesFrom(in.analyzed(), op->inputs[0]);
  std::optional<TensorRef> like;
  for (int k = 0; k < 2; ++k) {
    const bool known = k < static_cast<int>(sizes.size()) && sizes[k];
    const SizeExpression size = known ? *sizes[k] : SizeExpression();
    const Shape* y = shapes.shape({i, 0});
    if (known && size.constant()) {
      op->op.output_size[k] = size.offset;
    } else if (known && size.offset == 0 && size.factor > 0 &&
               size.axis == 1 + k &&
               (k == 0 || size.tensor == like.value_or(x))) {
      op->op.factors[k] = size.factor;
      if (size.tensor != x) like = size.tensor;
    } else if (y && y->size() == 4 && shapes.fixed({i, 0}, 1 + k)) {
      op->op.output_size[k] = (*y)[1 + k];
    } else {
      return Refuse(
          Reason::kOutputSize,
          "the engine cannot derive the output size for all input sizes");
    }
  }
  if (!like) return absl::OkStatus();
  const Shape* shape = shapes.shape(*like);
  if (op->op.output_size != std::array<int64_t, 2>{0, 0} || !shape ||
      shape->size() != 4 || shapes.dtype(*like) != shapes.dtype(x)) {
    return Refuse(
        Reason::kOutputSize,
        "the height and width of the output must both come from one tensor of "
        "images of the input's data type");
  }
  op->op.size_from_last_input = true;
  op->inputs.push_back(*like);
  return absl::OkStatus();
}

Result Resize(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const NodeDef& node = graph.node(i);
  const Shape* shape = shapes.shape(in.Input(i, 0));
  if (!shape || shape->size() != 4) return RefuseShape();
  ImportedOperator op = in.Make(i, OperatorType::kResize, {in.Input(i, 0)});
  // TensorFlow's resize returns float32 for every input type, and Keras casts
  // the result back.
  const auto type = ToDataType(shapes.dtype(op.inputs[0]));
  if (type != in.dtype()) {
    const int cast = graph.OnlyConsumer(op.output);
    if (!type || cast < 0 || graph.node(cast).op() != "Cast" ||
        shapes.dtype({cast, 0}) != shapes.dtype(op.inputs[0])) {
      return Refuse(Reason::kDataType, "the resize changes the data type");
    }
    op.dtype = *type;
    op.output = {cast, 0};
    op.nodes.push_back(cast);
  }
  op.op.interpolation = node.op() == "ResizeBilinear" ? Interpolation::kBilinear
                                                      : Interpolation::kNearest;
  const bool half_pixel = Attr<bool>(node, "half_pixel_centers", false);
  const bool align = Attr<bool>(node, "align_corners", false);
  if (half_pixel && align)
    return Refuse(Reason::kAttribute, "corners and centers are both set");
  if (half_pixel) op.op.coordinates = Coordinates::kHalfPixel;
  if (align) op.op.coordinates = Coordinates::kAlignCorners;
  TF_RETURN_IF_ERROR(
      ReadOutputSize(in, i, ReadSizes(&in.analyzed(), in.Input(i, 1)), &op));
  return in.Emit(std::move(op));
}

Result MoveDepth(ImportContext& in, int i) {
  const NodeDef& node = in.graph().node(i);
  // Channel c of a cell becomes channel (position of the cell in its block) * C
  // + c of the image with more channels, in both layouts. C is the number of
  // channels of the image with fewer channels.
  if (!in.InputShape(i, 0, {4}) ||
      Attr<std::string>(node, "data_format", "NHWC") == "NCHW_VECT_C") {
    return RefuseShape();
  }
  ImportedOperator op =
      in.Make(i,
              node.op() == "DepthToSpace" ? OperatorType::kDepthToSpace
                                          : OperatorType::kSpaceToDepth,
              {in.Input(i, 0)});
  op.op.block_size = Attr<int64_t>(node, "block_size", 0);
  return in.Emit(std::move(op));
}

// Emits an operator for a Tile or BroadcastTo that repeats one cell over an
// image, or one channel over several channels.
Result Spread(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  const bool tile = graph.node(i).op() == "Tile";
  const TensorRef x = in.Input(i, 0), y = {i, 0};
  const Shape *from = in.InputShape(i, 0, {4}), *to = shapes.shape(y);
  SizeExpressions sizes = ReadSizes(&in.analyzed(), in.Input(i, 1));
  if (!from || !to || to->size() != 4 || sizes.size() != 4 ||
      layouts.layout(x) != Layout::kChannelsLast ||
      layouts.layout(y) != Layout::kChannelsLast) {
    return Refuse(Reason::kDimension,
                  "the node repeats other dimensions than height and width");
  }
  const auto same = [&](int d) {
    return shapes.same_dimensions(x, y, d, d + 1);
  };
  const auto one = [&](int d) { return (*from)[d] == 1 && shapes.fixed(x, d); };
  if (!same(0)) return Refuse(Reason::kDimension, "the node repeats images");
  if (!same(3)) {
    if (!one(3) || !same(1) || !same(2) || !shapes.fixed(y, 3)) {
      return Refuse(Reason::kDimension, "the node repeats several channels");
    }
    ImportedOperator op = in.Make(i, OperatorType::kBinary, {x});
    op.op.function = BinaryFunction::kMultiply;
    op.op.operand = {1, 1, 1, to->back()};
    op.weights = {std::vector<float>(to->back(), 1.0f)};
    return in.Emit(std::move(op));
  }
  for (int d : {1, 2}) {
    if (same(d)) {
      // This dimension keeps its size, which may vary.
      sizes[d] = SizeExpression{SizesFrom(in.analyzed(), x), d, 1, 0};
    } else if (!one(d)) {
      return Refuse(Reason::kDimension, "the node repeats more than one pixel");
    }
  }
  if (same(1) && same(2))
    return Refuse(Reason::kAttribute, "the node repeats nothing");
  if (tile && !(sizes[0] && sizes[0]->constant() && sizes[0]->offset == 1)) {
    return Refuse(Reason::kDimension, "the node repeats images");
  }
  ImportedOperator op = in.Make(i, OperatorType::kResize, {x});
  op.op.coordinates = Coordinates::kHalfPixel;
  TF_RETURN_IF_ERROR(ReadOutputSize(in, i, {sizes[1], sizes[2]}, &op));
  return in.Emit(std::move(op));
}

// Emits a resize for tf.repeat along height or width, which Keras uses for
// UpSampling2D. The graph writes tf.repeat as an ExpandDims after the
// dimension, a Tile along the new dimension, and a Reshape back to an image.
Result Repeat(ImportContext& in, int i) {
  GraphView& graph = in.graph();
  const ShapeTable& shapes = in.shapes();
  const LayoutMap& layouts = in.layouts();
  const TensorRef expanded = in.Input(i, 0);
  const int before = expanded.node, after = graph.OnlyConsumer({i, 0});
  if (graph.node(before).op() != "ExpandDims" || after < 0 ||
      graph.node(after).op() != "Reshape" ||
      in.Input(after, 0) != TensorRef{i, 0} ||
      graph.OnlyConsumer(expanded) != i || !in.InputShape(before, 0, {4})) {
    return Refuse(Reason::kDimension,
                  "the node repeats other dimensions than height and width");
  }
  const TensorRef x = in.Input(before, 0);
  auto axis = Integers(in.Constant(before, 1));
  const auto multiples = Integers(in.Constant(i, 1));
  SizeExpressions wanted = SizesOf(&in.analyzed(), x);
  const SizeExpressions sizes = ReadSizes(&in.analyzed(), in.Input(after, 1));
  const int64_t rank = wanted.size();
  if (!axis || axis->size() != 1 || !multiples || rank < 3 ||
      static_cast<int64_t>(multiples->size()) != rank + 1 ||
      static_cast<int64_t>(sizes.size()) != rank ||
      layouts.layout(x) != layouts.layout({after, 0})) {
    return RefuseShape();
  }
  if ((*axis)[0] < 0) (*axis)[0] += rank + 1;
  const int64_t repeated = (*axis)[0] - 1;
  int64_t times = 1;
  for (int64_t d = 0; d <= rank; ++d) {
    if (d == (*axis)[0]) {
      times = (*multiples)[d];
    } else if ((*multiples)[d] != 1) {
      return Refuse(Reason::kDimension,
                    "the node repeats other dimensions than height and width");
    }
  }
  const int64_t dimension =
      LogicalAxis(repeated, *shapes.shape(x), layouts.layout(x));
  if (repeated < 0 || times < 1 || (dimension != 1 && dimension != 2)) {
    return Refuse(Reason::kDimension,
                  "the node repeats other dimensions than height and width");
  }
  for (int64_t d = 0; d < rank; ++d) {
    if (d == repeated) {
      wanted[d]->factor *= times;
      wanted[d]->offset *= times;
    }
    const bool inferred =
        sizes[d] && sizes[d]->constant() && sizes[d]->offset == -1;
    if (!inferred && !(sizes[d] == wanted[d])) {
      return Refuse(Reason::kOutputSize,
                    "the Reshape after the Tile does not give the shape of the "
                    "repeated image");
    }
  }
  ImportedOperator op = in.Make(i, OperatorType::kResize, {x});
  op.op.coordinates = Coordinates::kHalfPixel;
  op.op.factors[dimension - 1] = times;
  op.output = {after, 0};
  op.nodes = {before, i, after};
  return in.Emit(std::move(op));
}

Result Tile(ImportContext& in, int i) {
  // Repeat() comes first, because a Tile that repeats the cells of a sequence
  // looks like a Tile that repeats the only column of an image.
  if (Repeat(in, i).ok()) return absl::OkStatus();
  return Spread(in, i);
}

}  // namespace

HandlerTable ResizeHandlers() {
  return {
      {"ResizeBilinear", Resize},
      {"ResizeNearestNeighbor", Resize},
      {"Tile", Tile},
      {"BroadcastTo", Spread},
      {"DepthToSpace", MoveDepth},
      {"SpaceToDepth", MoveDepth},
  };
}

}  // namespace ios::tf
