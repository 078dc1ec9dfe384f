#include "cc/tensorflow/shapes/size_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "cc/tensorflow/graph/attributes.h"
#include "cc/tensorflow/graph/one_of.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::Tensor;
using Numbers = std::vector<double>;

// Bounds up to this size are ignored, because the usual samples are on both
// sides of them.
constexpr double kSmall = 2;
// The number of bounds that a slice may have in each dimension.
constexpr int kBoundsOfDimension = 6;

template <typename T>
Numbers ToNumbers(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return Numbers(flat.data(), flat.data() + flat.size());
}

Numbers ToNumbers(const Tensor* tensor) {
  if (!tensor) return {};
  switch (tensor->dtype()) {
    case tensorflow::DT_INT32:
      return ToNumbers<int32_t>(*tensor);
    case tensorflow::DT_INT64:
      return ToNumbers<int64_t>(*tensor);
    case tensorflow::DT_FLOAT:
      return ToNumbers<float>(*tensor);
    case tensorflow::DT_DOUBLE:
      return ToNumbers<double>(*tensor);
    default:
      return {};
  }
}

using List = std::vector<int64_t>;

int64_t Mask(const NodeDef& node, const char* name) {
  return Attr<int64_t>(node, name, 0);
}

class BoundReader {
 public:
  BoundReader(const GraphView& view, const tensorflow::GraphDef& graph,
              const OutputProperties& outputs, const ValueOf& value_of)
      : view_(view), graph_(graph), outputs_(outputs), value_of_(value_of) {}

  void Read(int i) {
    node_ = i;
    const std::string& op = node().op();
    if (op == "StridedSlice") {
      ReadStridedSlice();
    } else if (op == "Slice") {
      ReadSlice();
    } else if (op == "Range") {
      const Numbers start = Input(0), limit = Input(1);
      if (start.size() == 1 && limit.size() == 1) Add(0, limit[0] - start[0]);
    } else if (OneOf(op, {"FloorDiv", "TruncateDiv", "Div", "FloorMod", "Mod",
                          "TruncateMod"})) {
      ReadQuotients();
    } else if (OneOf(op, {"Floor", "Ceil", "Round", "Rint"}) ||
               (op == "Cast" && IsInteger({i, 0}))) {
      const Numbers x = Input(0);
      for (size_t k = 0; k < x.size(); ++k) AddQuotient(k, x[k]);
    } else {
      ReadWindow();
    }
  }

  BoundDistances Take() { return std::move(distances_); }

 private:
  const NodeDef& node() const { return graph_.node(node_); }

  // Adds a bound. `index` is its number within the node.
  void Add(int index, double distance) {
    distances_[{node_, index, /*repeats=*/false}] = distance;
  }
  // Adds a bound that repeats: the node changes whenever `quotient` reaches a
  // whole number.
  void AddQuotient(int index, double quotient) {
    distances_[{node_, index, /*repeats=*/true}] = std::abs(quotient);
  }

  const std::vector<TensorRef>& inputs() const { return view_.inputs(node_); }
  bool IsConstant(size_t k) const {
    return graph_.node(inputs()[k].node).op() == "Const";
  }
  Numbers Input(size_t k) const {
    return k < inputs().size() ? ToNumbers(value_of_(inputs()[k])) : Numbers();
  }

  const tensorflow::OpInfo::TensorProperties* Output(TensorRef t) const {
    return t.port < static_cast<int>(outputs_[t.node].size())
               ? &outputs_[t.node][t.port]
               : nullptr;
  }
  bool IsInteger(TensorRef t) const {
    const auto* output = Output(t);
    return output && tensorflow::DataTypeIsInteger(output->dtype());
  }
  // Returns the dimensions of data input `k`; unknown ones are negative.
  List Dimensions(size_t k) const {
    List result;
    const auto* output = k < inputs().size() ? Output(inputs()[k]) : nullptr;
    if (!output || output->shape().unknown_rank()) return result;
    for (const auto& dim : output->shape().dim()) result.push_back(dim.size());
    return result;
  }

  // Adds the two bounds of a slice's begin or end (`position`) in a dimension
  // of `size` elements. Their indices are `index` and `index` + 1. A negative
  // position counts from the end.
  void AddPosition(int index, int64_t size, double position, bool constant) {
    if (!constant) Add(index, position);
    if (!constant || std::abs(position) > kSmall) {
      Add(index + 1, static_cast<double>(size) - std::abs(position));
    }
  }

  void ReadStridedSlice() {
    if (inputs().size() < 4) return;
    const List sizes = Dimensions(0);
    const Numbers begin = Input(1), end = Input(2), strides = Input(3);
    const size_t specified = std::max(begin.size(), end.size());
    const int64_t ellipsis = Mask(node(), "ellipsis_mask");
    const int64_t new_axis = Mask(node(), "new_axis_mask");
    int64_t dimensions_said = 0;
    for (size_t k = 0; k < specified; ++k) {
      dimensions_said += !((ellipsis | new_axis) >> k & 1);
    }
    size_t d = 0;
    for (size_t k = 0; k < specified; ++k) {
      if (ellipsis >> k & 1) {
        d += std::max<int64_t>(
            static_cast<int64_t>(sizes.size()) - dimensions_said, 0);
        continue;
      }
      if (new_axis >> k & 1) continue;
      if (d >= sizes.size()) return;
      const int64_t size = sizes[d++];
      if (size < 0) continue;
      const bool has_begin =
          k < begin.size() && !(Mask(node(), "begin_mask") >> k & 1);
      const bool has_end =
          k < end.size() &&
          !((Mask(node(), "end_mask") | Mask(node(), "shrink_axis_mask")) >> k &
            1);
      const int first = kBoundsOfDimension * static_cast<int>(k);
      if (has_begin) AddPosition(first, size, begin[k], IsConstant(1));
      if (has_end) AddPosition(first + 2, size, end[k], IsConstant(2));
      if (has_begin && has_end && (begin[k] < 0) != (end[k] < 0)) {
        const auto from_start = [&](double x) { return x < 0 ? x + size : x; };
        Add(first + 4, from_start(end[k]) - from_start(begin[k]));
      }
      if (k < strides.size() && std::abs(strides[k]) > kSmall) {
        AddQuotient(first + 5, size / strides[k]);
      }
    }
  }

  void ReadSlice() {
    const List sizes = Dimensions(0);
    const Numbers begin = Input(1), count = Input(2);
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] < 0) continue;
      const double first = d < begin.size() ? begin[d] : 0;
      const int index = kBoundsOfDimension * static_cast<int>(d);
      if (d < begin.size()) {
        AddPosition(index, sizes[d], first, IsConstant(1));
      }
      if (d < count.size() && count[d] >= 0) {
        AddPosition(index + 2, sizes[d], first + count[d],
                    IsConstant(1) && IsConstant(2));
      }
    }
  }

  void ReadQuotients() {
    const Numbers x = Input(0), y = Input(1);
    if (x.empty() || y.empty()) return;
    for (size_t k = 0; k < std::max(x.size(), y.size()); ++k) {
      const double divisor = y[std::min(k, y.size() - 1)];
      if (divisor != 0) {
        AddQuotient(k, x[std::min(k, x.size() - 1)] / divisor);
      }
    }
  }

  // Adds the bounds of windows, which have two causes: strides round the number
  // of windows, and a window may be larger than the image.
  void ReadWindow() {
    List window = Attr(node(), "ksize", List());
    if (window.empty()) window = Attr(node(), "ksizes", List());
    List strides = Attr(node(), "strides", List());
    if (strides.size() < 3) return;
    if (window.empty() && absl::StrContains(node().op(), "Conv")) {
      window = FilterWindow(strides.size());
    }
    const List sizes = Dimensions(0);
    for (size_t d = 1; d < sizes.size() && d < strides.size(); ++d) {
      const int64_t step =
          std::max(strides[d], d < window.size() ? window[d] : 1);
      if (step > kSmall && sizes[d] >= 0) {
        AddQuotient(d, static_cast<double>(sizes[d]) / step);
      }
    }
  }

  // Returns the size of a convolution's window, in the order of its strides.
  List FilterWindow(size_t rank) const {
    const List filter = Dimensions(1);
    const List dilations = Attr(node(), "dilations", List());
    const auto format = Attr<std::string>(node(), "data_format", "NHWC");
    const size_t first = absl::StartsWith(format, "NC") ? 2 : 1;
    List window(rank, 1);
    for (size_t k = 0; k + 2 < filter.size() && first + k < rank; ++k) {
      const size_t d = first + k;
      window[d] = filter[k] * (d < dilations.size() ? dilations[d] : 1);
    }
    return window;
  }

  const GraphView& view_;
  const tensorflow::GraphDef& graph_;
  const OutputProperties& outputs_;
  const ValueOf& value_of_;
  int node_ = -1;
  BoundDistances distances_;
};

}  // namespace

BoundDistances ReadBounds(const GraphView& view,
                          const tensorflow::GraphDef& graph,
                          const OutputProperties& outputs,
                          const ValueOf& value_of) {
  BoundReader reader(view, graph, outputs, value_of);
  for (int i : view.order()) reader.Read(i);
  return reader.Take();
}

}  // namespace ios::tf
