#include "cc/tensorflow/import/normalization.h"

#include <algorithm>
#include <string>

#include "cc/tensorflow/graph/dtypes.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ios::tf {
namespace {

using ::tensorflow::Tensor;

class Matcher {
 public:
  explicit Matcher(GraphIndex* graph) : graph_(*graph) {}

  // x * factor + (shift - mean * factor), factor = rsqrt(variance + epsilon) *
  // scale.
  std::optional<Normalization> Match(int add) {
    for (int k : {0, 1}) {
      found_ = Normalization();
      found_.nodes = {add};
      const TensorRef product = graph_.Input(add, k);
      const TensorRef rest = graph_.Input(add, 1 - k);
      if (Is(product, "Mul") && MatchProduct(product.node) && MatchRest(rest)) {
        return found_;
      }
    }
    return std::nullopt;
  }

 private:
  bool Is(TensorRef t, const char* op) const {
    return t.port == 0 && graph_.node(t.node).op() == op &&
           !graph_.constant(t.node) && !graph_.conditional(t.node);
  }
  bool IsSum(TensorRef t) const { return Is(t, "AddV2") || Is(t, "Add"); }
  void Cover(TensorRef t) { found_.nodes.push_back(t.node); }

  // A node's operands: the one that is a constant, and the other.
  struct Operands {
    TensorRef other;
    const Tensor* constant = nullptr;
  };
  Operands WithConstant(int i) {
    for (int k : {0, 1}) {
      if (const Tensor* value = graph_.Constant(graph_.Input(i, k))) {
        return {graph_.Input(i, 1 - k), value};
      }
    }
    return {};
  }

  bool MatchProduct(int mul) {
    for (int k : {0, 1}) {
      factor_ = graph_.Input(mul, 1 - k);
      found_.x = graph_.Input(mul, k);
      if (MatchFactor()) {
        found_.nodes.push_back(mul);
        return true;
      }
    }
    return false;
  }

  bool MatchFactor() {
    TensorRef rsqrt = factor_;
    if (Is(factor_, "Mul")) {
      const Operands operands = WithConstant(factor_.node);
      if (!operands.constant) return false;
      found_.scale = operands.constant;
      rsqrt = operands.other;
    }
    if (!Is(rsqrt, "Rsqrt")) return false;
    const TensorRef sum = graph_.Input(rsqrt.node, 0);
    const Operands operands = IsSum(sum) ? WithConstant(sum.node) : Operands();
    if (!operands.constant || operands.constant->NumElements() != 1 ||
        operands.constant->dtype() != tensorflow::DT_FLOAT ||
        !MatchVariance(operands.other)) {
      return false;
    }
    found_.epsilon = operands.constant->flat<float>()(0);
    if (factor_ != rsqrt) Cover(factor_);
    Cover(rsqrt);
    Cover(sum);
    return true;
  }

  bool MatchVariance(TensorRef variance) {
    if (!Is(variance, "Mean")) return false;
    const TensorRef squares = graph_.Input(variance.node, 0);
    if (!Is(squares, "SquaredDifference")) return false;
    for (int k : {0, 1}) {
      mean_ = graph_.Input(squares.node, k);
      if (!Is(mean_, "Mean") || graph_.Input(squares.node, 1 - k) != found_.x ||
          graph_.Input(mean_.node, 0) != found_.x) {
        continue;
      }
      const auto axes = Axes(mean_.node);
      if (axes.empty() || axes != Axes(variance.node)) return false;
      found_.axes = axes;
      Cover(mean_);
      Cover(squares);
      Cover(variance);
      return true;
    }
    return false;
  }

  // The axes of a Mean that keeps its dimensions, from the first one on.
  std::vector<int64_t> Axes(int mean) {
    bool keeps = false;
    auto axes = Integers(graph_.Constant(graph_.Input(mean, 1)));
    const Shape* shape = graph_.shape(graph_.Input(mean, 0));
    if (!tensorflow::TryGetNodeAttr(graph_.node(mean), "keep_dims", &keeps) ||
        !keeps || !axes || !shape) {
      return {};
    }
    const int64_t rank =
        shape->size() -
        (graph_.layout(graph_.Input(mean, 0)) == Layout::kSequence);
    for (int64_t& axis : *axes) axis = axis < 0 ? axis + rank : axis;
    std::sort(axes->begin(), axes->end());
    return *axes;
  }

  // shift - mean * factor, or shift + -mean * factor, or without a shift.
  bool MatchRest(TensorRef rest) {
    if (Is(rest, "Sub")) {
      found_.shift = graph_.Constant(graph_.Input(rest.node, 0));
      Cover(rest);
      return found_.shift && MatchMean(graph_.Input(rest.node, 1), false);
    }
    TensorRef product = rest;
    if (IsSum(rest)) {
      const Operands operands = WithConstant(rest.node);
      if (!operands.constant) return false;
      found_.shift = operands.constant;
      Cover(rest);
      product = operands.other;
    }
    return MatchMean(product, true);
  }

  bool MatchMean(TensorRef product, bool negative) {
    if (!Is(product, "Mul")) return false;
    Cover(product);
    for (int k : {0, 1}) {
      TensorRef mean = graph_.Input(product.node, k);
      if (graph_.Input(product.node, 1 - k) != factor_) continue;
      if (negative) {
        if (!Is(mean, "Neg")) continue;
        Cover(mean);
        mean = graph_.Input(mean.node, 0);
      }
      if (mean == mean_) return true;
    }
    return false;
  }

  GraphIndex& graph_;
  Normalization found_;
  TensorRef factor_, mean_;
};

}  // namespace

std::optional<Normalization> MatchNormalization(GraphIndex* graph, int add) {
  return Matcher(graph).Match(add);
}

}  // namespace ios::tf
