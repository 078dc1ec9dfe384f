#include "cc/tensorflow/shapes/layout_map.h"

#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/elementwise.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// Returns whether the operation supports only channels last.
bool IsChannelsLast(const std::string& op) {
  return op == "LRN" || op == "ResizeBilinear" || op == "ResizeNearestNeighbor";
}

// Returns the data input of an operation that has a data format, or -1.
int FormattedInput(const std::string& op) {
  static const auto* const kFormatted =
      new std::unordered_set<std::string>{"AvgPool",
                                          "BiasAdd",
                                          "Conv2D",
                                          "DepthToSpace",
                                          "FusedBatchNorm",
                                          "FusedBatchNormV2",
                                          "FusedBatchNormV3",
                                          "MaxPool",
                                          "SpaceToDepth",
                                          "_FusedConv2D",
                                          "_FusedBatchNormEx",
                                          "DepthwiseConv2dNative",
                                          "_FusedDepthwiseConv2dNative"};
  if (op == "Conv2DBackpropInput") return 2;
  if (IsChannelsLast(op)) return 0;
  return kFormatted->count(op) > 0 ? 0 : -1;
}

// Returns whether the inputs and outputs of rank 4 of an operation have the
// same order of dimensions.
bool KeepsLayout(const std::string& op) {
  if (UnaryOperations().count(op) > 0 || BinaryOperations().count(op) > 0) {
    return true;
  }
  // Operations that also keep the layout, although they are not in the lists of
  // elementwise.h.
  static const auto* const kKept = new std::unordered_set<std::string>{
      "AddN",  "Cast",         "ClipByValue",  "ConcatV2", "Greater",
      "Less",  "GreaterEqual", "LessEqual",    "Identity", "Max",
      "Mean",  "MirrorPad",    "Neg",          "Pad",      "PadV2",
      "Pow",   "Roll",         "Select",       "SelectV2", "Slice",
      "Split", "SplitV",       "StridedSlice", "Sum",      "ZerosLike",
  };
  return kKept->count(op) > 0;
}

// Groups tensors into classes with the same order of dimensions.
class LayoutFinder {
 public:
  LayoutFinder(GraphView* view, const ShapeTable& shapes)
      : view_(*view), shapes_(shapes) {}

  LayoutMap Run() {
    std::vector<int> transposes;
    for (int i : view_.order()) {
      if (IsWeight(i) || view_.passthrough(i)) continue;
      const std::string& op = view_.node(i).op();
      if (op == "Transpose" && Class({i, 0}) >= 0 &&
          Class(view_.Input(i, 0)) >= 0) {
        transposes.push_back(i);
      } else if (KeepsLayout(op)) {
        JoinAll(i);
      }
    }
    for (int i : view_.order()) {
      if (IsWeight(i) || view_.passthrough(i)) continue;
      ReadFormat(i);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (int i : transposes) changed = ReadTranspose(i) || changed;
    }
    std::set<TensorRef> channels_first;
    for (const auto& [tensor, k] : numbers_) {
      if (first_[Find(k)] == true) channels_first.insert(tensor);
    }
    return {std::move(channels_first), shapes_.sequences()};
  }

 private:
  // Weights do not have an image layout.
  bool IsWeight(int i) const { return view_.constant(i) || view_.variable(i); }

  // Returns the number of the class of a tensor of rank 4. Returns -1 for
  // weights, sequences and tensors of other ranks.
  int Class(TensorRef tensor) {
    const Shape* shape = shapes_.shape(tensor);
    if (!shape || shape->size() != 4 || IsWeight(tensor.node) ||
        shapes_.is_sequence(tensor)) {
      return -1;
    }
    const auto [it, is_new] = numbers_.try_emplace(tensor, root_.size());
    if (is_new) {
      root_.push_back(root_.size());
      first_.emplace_back();
    }
    return it->second;
  }
  int Find(int k) {
    while (root_[k] != k) k = root_[k] = root_[root_[k]];
    return k;
  }
  std::optional<bool>& First(TensorRef tensor) {
    return first_[Find(Class(tensor))];
  }

  void JoinAll(int i) {
    std::vector<int> classes;
    for (size_t k = 0; k < view_.inputs(i).size(); ++k) {
      classes.push_back(Class(view_.Input(i, k)));
    }
    for (int port = 0; shapes_.dtype({i, port}) != tensorflow::DT_INVALID;
         ++port) {
      classes.push_back(Class({i, port}));
    }
    int first = -1;
    for (int k : classes) {
      if (k < 0) continue;
      if (first < 0) first = k;
      root_[Find(k)] = Find(first);
    }
  }

  void ReadFormat(int i) {
    const NodeDef& node = view_.node(i);
    const int input = FormattedInput(node.op());
    std::string format = "NHWC";
    if (input < 0 || input >= static_cast<int>(view_.inputs(i).size()) ||
        (!IsChannelsLast(node.op()) &&
         !tensorflow::TryGetNodeAttr(node, "data_format", &format))) {
      return;
    }
    for (const TensorRef& t : {view_.Input(i, input), TensorRef{i, 0}}) {
      // If nodes contradict each other, the first one determines the layout,
      // and the others are not imported.
      if (Class(t) >= 0 && !First(t)) First(t) = format == "NCHW";
    }
  }

  // If the layout of one side of a Transpose is known and the permutation fits
  // it, sets the layout of the other side and returns true.
  bool ReadTranspose(int i) {
    const Permutation permutation = PermutationOf(&view_, i);
    const TensorRef x = view_.Input(i, 0), y = {i, 0};
    std::optional<bool> from, to;
    switch (permutation) {
      case Permutation::kOther:
        return false;
      case Permutation::kNone:
        from = to = First(x) ? First(x) : First(y);
        break;
      case Permutation::kToChannelsFirst:
      case Permutation::kToChannelsLast:
        from = permutation == Permutation::kToChannelsLast;
        to = !*from;
        break;
    }
    const bool known = First(x) || First(y);
    if (!known || (First(x) && First(x) != from) ||
        (First(y) && First(y) != to) || (First(x) && First(y))) {
      return false;
    }
    First(x) = from;
    First(y) = to;
    return true;
  }

  GraphView& view_;
  const ShapeTable& shapes_;
  std::map<TensorRef, int> numbers_;
  std::vector<int> root_;
  std::vector<std::optional<bool>> first_;  // channels first, by root
};

}  // namespace

Permutation PermutationOf(GraphView* view, int transpose) {
  const tensorflow::Tensor* order =
      view->inputs(transpose).size() > 1
          ? view->Constant(view->inputs(transpose)[1])
          : nullptr;
  const auto values = Integers(order);
  if (!values || order->dims() != 1) return Permutation::kOther;
  std::vector<int64_t> same(values->size());
  std::iota(same.begin(), same.end(), 0);
  if (*values == same) return Permutation::kNone;
  if (*values == std::vector<int64_t>{0, 3, 1, 2}) {
    return Permutation::kToChannelsFirst;
  }
  if (*values == std::vector<int64_t>{0, 2, 3, 1}) {
    return Permutation::kToChannelsLast;
  }
  return Permutation::kOther;
}

LayoutMap FindLayouts(GraphView* view, const ShapeTable& shapes) {
  return LayoutFinder(view, shapes).Run();
}

}  // namespace ios::tf
