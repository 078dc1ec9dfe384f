#include "cc/tensorflow/graph/layouts.h"

#include <map>
#include <numeric>
#include <string>
#include <unordered_set>

#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/graph/elementwise.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// Returns whether the operation supports channels last only.
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
  // Operations that are not element-wise in name, but keep the layout.
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
class Layouts {
 public:
  explicit Layouts(GraphIndex* graph) : graph_(*graph) {}

  std::set<TensorRef> Run() {
    std::vector<int> transposes;
    for (int i : graph_.order()) {
      if (IsWeight(i) || graph_.passthrough(i)) continue;
      const std::string& op = graph_.node(i).op();
      if (op == "Transpose" && Class({i, 0}) >= 0 &&
          Class(graph_.Input(i, 0)) >= 0) {
        transposes.push_back(i);
      } else if (KeepsLayout(op)) {
        JoinAll(i);
      }
    }
    for (int i : graph_.order()) {
      if (IsWeight(i) || graph_.passthrough(i)) continue;
      ReadFormat(i);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (int i : transposes) changed = ReadTranspose(i) || changed;
    }
    std::set<TensorRef> result;
    for (const auto& [tensor, k] : numbers_) {
      if (first_[Find(k)] == true) result.insert(tensor);
    }
    return result;
  }

 private:
  // Weights do not have an image layout.
  bool IsWeight(int i) const {
    return graph_.constant(i) || graph_.variable(i);
  }

  // Returns the number of a tensor of rank 4. Returns -1 for weights, sequences
  // and tensors of other ranks.
  int Class(TensorRef tensor) {
    const Shape* shape = graph_.shape(tensor);
    if (!shape || shape->size() != 4 || IsWeight(tensor.node) ||
        graph_.layout(tensor) == Layout::kSequence) {
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
    for (size_t k = 0; k < graph_.inputs(i).size(); ++k) {
      classes.push_back(Class(graph_.Input(i, k)));
    }
    for (int port = 0; graph_.dtype({i, port}) != tensorflow::DT_INVALID;
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
    const NodeDef& node = graph_.node(i);
    const int input = FormattedInput(node.op());
    std::string format = "NHWC";
    if (input < 0 || input >= static_cast<int>(graph_.inputs(i).size()) ||
        (!IsChannelsLast(node.op()) &&
         !tensorflow::TryGetNodeAttr(node, "data_format", &format))) {
      return;
    }
    for (const TensorRef& t : {graph_.Input(i, input), TensorRef{i, 0}}) {
      // The first format wins: nodes that contradict it are not imported.
      if (Class(t) >= 0 && !First(t)) First(t) = format == "NCHW";
    }
  }

  // Treats a Transpose as a change of layout if the layout of one side is known
  // and the permutation fits it. Then sets the layout of the other side and
  // returns true.
  bool ReadTranspose(int i) {
    const Permutation permutation = PermutationOf(&graph_, i);
    const TensorRef x = graph_.Input(i, 0), y = {i, 0};
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

  GraphIndex& graph_;
  std::map<TensorRef, int> numbers_;
  std::vector<int> root_;
  std::vector<std::optional<bool>> first_;  // channels first, by root
};

}  // namespace

Permutation PermutationOf(GraphIndex* graph, int transpose) {
  const tensorflow::Tensor* order =
      graph->inputs(transpose).size() > 1
          ? graph->Constant(graph->inputs(transpose)[1])
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

std::set<TensorRef> FindChannelsFirst(GraphIndex* graph) {
  return Layouts(graph).Run();
}

}  // namespace ios::tf
