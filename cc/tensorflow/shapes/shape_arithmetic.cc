#include "cc/tensorflow/shapes/shape_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "cc/tensorflow/graph/attributes.h"
#include "cc/tensorflow/graph/dtypes.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;
using MaybeSize = std::optional<SizeExpression>;

// The largest number of nodes on a path that is followed. Graphs compute shapes
// in few steps, so a longer computation is not a computation of shapes.
constexpr int kMaxDepth = 16;

MaybeSize ConstantSize(int64_t value) {
  SizeExpression result;
  result.offset = value;
  return result;
}

// Returns element `i` of a float32 tensor if it is a whole number. Some graphs
// multiply sizes by float32 numbers.
std::optional<int64_t> WholeNumber(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() != tensorflow::DT_FLOAT) return std::nullopt;
  const float value = tensor.flat<float>()(i);
  if (!(std::abs(value) < 1e6f) || value != std::floor(value)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

SizeExpressions Constants(const Tensor& tensor) {
  const auto integers = Integers(&tensor);
  SizeExpressions result;
  for (int64_t i = 0; i < tensor.NumElements(); ++i) {
    const std::optional<int64_t> whole =
        integers ? (*integers)[i] : WholeNumber(tensor, i);
    if (!whole) return {};
    result.push_back(ConstantSize(*whole));
  }
  return result;
}

MaybeSize Add(const MaybeSize& a, const MaybeSize& b, int64_t sign) {
  if (!a || !b || (!a->constant() && !b->constant() && !a->SameDimension(*b))) {
    return std::nullopt;
  }
  SizeExpression sum = a->constant() ? *b : *a;
  sum.factor = a->factor + sign * b->factor;
  sum.offset = a->offset + sign * b->offset;
  return sum;
}

MaybeSize Multiply(const MaybeSize& a, const MaybeSize& b) {
  if (!a || !b || (!a->constant() && !b->constant())) return std::nullopt;
  SizeExpression product = a->constant() ? *b : *a;
  const int64_t by = a->constant() ? a->offset : b->offset;
  product.factor *= by;
  product.offset *= by;
  return product;
}

class Reader {
 public:
  explicit Reader(AnalyzedGraph* analyzed)
      : analyzed_(*analyzed),
        graph_(analyzed->graph()),
        shapes_(analyzed->shapes()),
        layouts_(analyzed->layouts()) {}

  SizeExpressions Read(TensorRef tensor, int depth) {
    tensor = graph_.Resolve(tensor);
    if (const Tensor* value = graph_.Constant(tensor)) return Constants(*value);
    if (depth > kMaxDepth || tensor.port != 0) return {};
    const int i = tensor.node;
    const std::string& op = graph_.node(i).op();
    if (op == "Shape") return OfShape(graph_.Input(i, 0));
    // A Cast does not change sizes, because they are whole numbers.
    if (op == "Cast" || op == "Reshape" || op == "Squeeze" ||
        op == "ExpandDims") {
      const SizeExpressions x = Read(graph_.Input(i, 0), depth + 1);
      // Reshape, Squeeze and ExpandDims are supported only for a tensor with a
      // single number.
      return op == "Cast" || x.size() == 1 ? x : SizeExpressions();
    }
    if (op == "StridedSlice") return OfStridedSlice(i, depth);
    if (op == "Slice") return OfSlice(i, depth);
    if (op == "Pack" || op == "ConcatV2") return OfList(i, depth);
    if (op == "Add" || op == "AddV2" || op == "Sub" || op == "Mul" ||
        op == "FloorMod") {
      return OfArithmetic(i, depth);
    }
    return {};
  }

  SizeExpressions OfShape(TensorRef of) {
    const Shape* shape = shapes_.shape(of);
    if (!shape) return {};
    std::vector<int> axes(shape->size());
    std::iota(axes.begin(), axes.end(), 0);
    if (layouts_.layout(of) == Layout::kChannelsFirst) axes = {0, 3, 1, 2};
    if (layouts_.layout(of) == Layout::kSequence) axes = {0, 2, 3};
    of = SizesFrom(analyzed_, of);
    SizeExpressions result;
    for (int axis : axes) {
      result.push_back(
          shapes_.fixed(of, axis)
              ? ConstantSize((*shape)[axis])
              : SizeExpression{of, axis, /*factor=*/1, /*offset=*/0});
    }
    return result;
  }

 private:
  SizeExpressions OfStridedSlice(int i, int depth) {
    const NodeDef& node = graph_.node(i);
    const SizeExpressions x = Read(graph_.Input(i, 0), depth + 1);
    const Tensor* const specs[] = {graph_.Constant(graph_.inputs(i)[1]),
                                   graph_.Constant(graph_.inputs(i)[2]),
                                   graph_.Constant(graph_.inputs(i)[3])};
    int64_t bounds[3];
    for (int k = 0; k < 3; ++k) {
      const SizeExpressions values =
          specs[k] ? Constants(*specs[k]) : SizeExpressions();
      if (values.size() != 1) return {};
      bounds[k] = values[0]->offset;
    }
    auto [begin, end, stride] = bounds;
    // If the slice reads a matrix, its begin and end are indices of rows, and
    // each row has `row` elements. Otherwise `row` is 1.
    const int64_t row = RowOf(i);
    const int64_t n = static_cast<int64_t>(x.size()) / row;
    if (stride != 1 || Attr<int64_t>(node, "ellipsis_mask", 0) ||
        Attr<int64_t>(node, "new_axis_mask", 0)) {
      return {};
    }
    if (begin < 0) begin += n;
    if (Attr<int64_t>(node, "shrink_axis_mask", 0)) {
      end = begin + 1;
    } else {
      if (Attr<int64_t>(node, "begin_mask", 0)) begin = 0;
      if (Attr<int64_t>(node, "end_mask", 0)) end = n;
      if (end < 0) end += n;
      end = std::min(end, n);
    }
    return Range(x, begin * row, end * row);
  }

  // Returns the number of elements of a row, if StridedSlice `i` reads a matrix
  // that consists of packed rows, or 1.
  int64_t RowOf(int i) {
    const TensorRef x = graph_.Input(i, 0);
    if (graph_.node(x.node).op() != "Pack") return 1;
    return std::max<int64_t>(Read(graph_.Input(x.node, 0), 0).size(), 1);
  }

  SizeExpressions OfSlice(int i, int depth) {
    const SizeExpressions x = Read(graph_.Input(i, 0), depth + 1);
    const SizeExpressions begin = Read(graph_.Input(i, 1), depth + 1);
    const SizeExpressions size = Read(graph_.Input(i, 2), depth + 1);
    if (begin.size() != 1 || size.size() != 1 || !begin[0] || !size[0] ||
        !begin[0]->constant() || !size[0]->constant()) {
      return {};
    }
    const int64_t first = begin[0]->offset, count = size[0]->offset;
    return Range(x, first, count < 0 ? x.size() : first + count);
  }

  static SizeExpressions Range(const SizeExpressions& x, int64_t begin,
                               int64_t end) {
    if (begin < 0 || begin >= end || end > static_cast<int64_t>(x.size())) {
      return {};
    }
    return {x.begin() + begin, x.begin() + end};
  }

  // Reads scalars or vectors that are packed, or vectors that are concatenated.
  SizeExpressions OfList(int i, int depth) {
    const bool pack = graph_.node(i).op() == "Pack";
    const int n = static_cast<int>(graph_.inputs(i).size()) - (pack ? 0 : 1);
    SizeExpressions result;
    for (int k = 0; k < n; ++k) {
      const SizeExpressions part = Read(graph_.Input(i, k), depth + 1);
      if (part.empty() && pack && result.size() == static_cast<size_t>(k)) {
        result.push_back(std::nullopt);  // an unknown scalar
      } else if (part.empty()) {
        return {};
      }
      result.insert(result.end(), part.begin(), part.end());
    }
    return result;
  }

  SizeExpressions OfArithmetic(int i, int depth) {
    const std::string& op = graph_.node(i).op();
    SizeExpressions a = Read(graph_.Input(i, 0), depth + 1);
    SizeExpressions b = Read(graph_.Input(i, 1), depth + 1);
    if (a.empty() || b.empty()) return {};
    if (a.size() == 1) a.resize(b.size(), a[0]);
    if (b.size() == 1) b.resize(a.size(), b[0]);
    if (a.size() != b.size()) return {};
    SizeExpressions result;
    for (size_t k = 0; k < a.size(); ++k) {
      if (op == "FloorMod") {
        result.push_back(SizeExpression{{i, 0}, static_cast<int>(k), 1, 0});
        continue;
      }
      result.push_back(op == "Mul" ? Multiply(a[k], b[k])
                                   : Add(a[k], b[k], op == "Sub" ? -1 : 1));
    }
    return result;
  }

  const AnalyzedGraph& analyzed_;
  GraphView& graph_;
  const ShapeTable& shapes_;
  const LayoutMap& layouts_;
};

}  // namespace

TensorRef SizesFrom(const AnalyzedGraph& analyzed, TensorRef tensor) {
  const GraphView& graph = analyzed.graph();
  const ShapeTable& shapes = analyzed.shapes();
  while (true) {
    const std::string& op = graph.node(tensor.node).op();
    if (op != "ExpandDims" && op != "Squeeze") return tensor;
    const TensorRef from = graph.Input(tensor.node, 0);
    if (!shapes.shape(from) || !shapes.same_shape(from, tensor)) return tensor;
    tensor = from;
  }
}

SizeExpressions SizesOf(AnalyzedGraph* analyzed, TensorRef tensor) {
  return Reader(analyzed).OfShape(tensor);
}

SizeExpressions ReadSizes(AnalyzedGraph* analyzed, TensorRef tensor) {
  return Reader(analyzed).Read(tensor, 0);
}

}  // namespace ios::tf
