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
  explicit Matcher(AnalyzedGraph* analyzed)
      : graph_(analyzed->graph()),
        shapes_(analyzed->shapes()),
        layouts_(analyzed->layouts()) {}

  std::optional<MatchedNorm> Match(int node) {
    const bool adds = IsSum({node, 0});
    for (int k : {0, 1}) {
      found_ = MatchedNorm();
      found_.nodes = {node};
      const TensorRef one = graph_.Input(node, k);
      const TensorRef other = graph_.Input(node, 1 - k);
      if (adds ? MatchSum(one, other)
               : MatchQuotient(graph_.node(node).op(), one, other, k == 0)) {
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
  bool IsSquare(TensorRef t) const {
    return Is(t, "Square") ||
           (Is(t, "Mul") && graph_.Input(t.node, 0) == graph_.Input(t.node, 1));
  }
  void Cover(TensorRef t) {
    if (std::find(found_.nodes.begin(), found_.nodes.end(), t.node) ==
        found_.nodes.end()) {
      found_.nodes.push_back(t.node);
    }
  }

  // The two operands of a node: `constant` is the value of the constant operand
  // (null if neither is constant), and `other` is the other operand.
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

  // Matches x * factor + (shift - mean * factor), where factor is
  // rsqrt(variance + epsilon) * scale.
  bool MatchSum(TensorRef product, TensorRef rest) {
    return Is(product, "Mul") && MatchProduct(product.node) && MatchRest(rest);
  }

  // Matches (x - mean) * factor or (x - mean) / sqrt(variance + epsilon),
  // depending on `op`.
  bool MatchQuotient(const std::string& op, TensorRef difference,
                     TensorRef factor, bool in_order) {
    if (!Is(difference, "Sub")) return false;
    found_.x = graph_.Input(difference.node, 0);
    factor_ = factor;
    Cover(difference);
    const bool matches = op == "Mul" ? MatchFactor()
                                     : op == "RealDiv" && in_order &&
                                           MatchDeviation(factor_, "Sqrt");
    return matches && IsMean(graph_.Input(difference.node, 1));
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
    if (!MatchDeviation(rsqrt, "Rsqrt")) return false;
    Cover(factor_);
    return true;
  }

  // Matches the root of variance + epsilon, or its inverse, depending on `op`.
  bool MatchDeviation(TensorRef root, const char* op) {
    if (!Is(root, op)) return false;
    const TensorRef sum = graph_.Input(root.node, 0);
    const Operands operands = IsSum(sum) ? WithConstant(sum.node) : Operands();
    if (!operands.constant || operands.constant->NumElements() != 1 ||
        operands.constant->dtype() != tensorflow::DT_FLOAT ||
        !MatchVariance(operands.other)) {
      return false;
    }
    found_.epsilon = operands.constant->flat<float>()(0);
    Cover(root);
    Cover(sum);
    return true;
  }

  // Matches the mean of (x - mean)^2.
  bool MatchVariance(TensorRef variance) {
    if (!Is(variance, "Mean")) return false;
    const TensorRef squares = graph_.Input(variance.node, 0);
    TensorRef difference = squares;
    if (IsSquare(squares)) {
      difference = graph_.Input(squares.node, 0);
      if (!Is(difference, "Sub")) return false;
    } else if (!Is(squares, "SquaredDifference")) {
      return false;
    }
    for (int k : {0, 1}) {
      mean_ = graph_.Input(difference.node, k);
      if (!Is(mean_, "Mean") ||
          graph_.Input(difference.node, 1 - k) != found_.x ||
          graph_.Input(mean_.node, 0) != found_.x) {
        continue;
      }
      const auto axes = Axes(mean_.node);
      if (axes.empty() || axes != Axes(variance.node)) return false;
      found_.axes = axes;
      for (TensorRef t : {mean_, difference, squares, variance}) Cover(t);
      return true;
    }
    return false;
  }

  // Returns true if `t` is the mean of the norm, or another node that computes
  // the same mean.
  bool IsMean(TensorRef t) {
    if (t == mean_) return true;
    if (!Is(t, "Mean") || graph_.Input(t.node, 0) != found_.x ||
        Axes(t.node) != found_.axes) {
      return false;
    }
    Cover(t);
    return true;
  }

  // Returns the axes of a Mean with keep_dims, sorted and as non-negative
  // numbers. Returns an empty list if keep_dims is false.
  std::vector<int64_t> Axes(int mean) {
    bool keeps = false;
    auto axes = Integers(graph_.Constant(graph_.Input(mean, 1)));
    const Shape* shape = shapes_.shape(graph_.Input(mean, 0));
    if (!tensorflow::TryGetNodeAttr(graph_.node(mean), "keep_dims", &keeps) ||
        !keeps || !axes || !shape) {
      return {};
    }
    const int64_t rank =
        shape->size() -
        (layouts_.layout(graph_.Input(mean, 0)) == Layout::kSequence);
    for (int64_t& axis : *axes) axis = axis < 0 ? axis + rank : axis;
    std::sort(axes->begin(), axes->end());
    return *axes;
  }

  // Matches shift - mean * factor, shift + -mean * factor, or -mean * factor
  // without a shift.
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
      if (IsMean(mean)) return true;
    }
    return false;
  }

  GraphView& graph_;
  const ShapeTable& shapes_;
  const LayoutMap& layouts_;
  MatchedNorm found_;
  TensorRef factor_, mean_;
};

}  // namespace

std::optional<MatchedNorm> MatchNormalization(AnalyzedGraph* analyzed,
                                              int node) {
  return Matcher(analyzed).Match(node);
}

}  // namespace ios::tf
