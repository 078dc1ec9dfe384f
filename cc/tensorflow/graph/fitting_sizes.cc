// Finds the input sizes that a graph's constants require. Position embeddings
// of 20x20, for example, fit images of only one size.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "cc/core/limits.h"
#include "cc/tensorflow/graph/attributes.h"
#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/graph/one_of.h"
#include "cc/tensorflow/graph/probes.h"
#include "cc/tensorflow/graph/shape_inference.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// The step by which an input size grows to show which dimensions depend on it.
// Networks divide sizes by factors of this number.
constexpr int64_t kStep = 96;

// A dimension of a node's first input and one of its second input.
struct Pair {
  size_t x, y;
};

// Returns the dimensions that must be equal. In elementwise operations, one of
// the two may be 1 instead.
std::vector<Pair> EqualDimensions(const NodeDef& node, const Shape& x,
                                  const Shape& y) {
  std::vector<Pair> pairs;
  if (OneOf(node.op(), {"Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum",
                        "Minimum", "SquaredDifference"})) {
    for (size_t d = 1; d <= std::min(x.size(), y.size()); ++d) {
      pairs.push_back({x.size() - d, y.size() - d});
    }
  } else if (node.op() == "MatMul" && x.size() == 2 && y.size() == 2) {
    pairs.push_back({Attr(node, "transpose_a", false) ? 0ul : 1ul,
                     Attr(node, "transpose_b", false) ? 1ul : 0ul});
  }
  return pairs;
}

bool Fit(const NodeDef& node, int64_t a, int64_t b) {
  return a == b || (node.op() != "MatMul" && (a == 1 || b == 1));
}

// Returns the input sizes at which a dimension becomes `wanted`, by linear
// extrapolation. The dimension is `v` at `sizes`, and more[k] if sizes[k] is
// larger by kStep.
ImageSize Solve(const ImageSize& sizes, int64_t v, const ImageSize& more,
                int64_t wanted) {
  ImageSize result = sizes;
  if (more[0] != v && more[1] != v) {  // a number of pixels or elements
    const double scale = std::sqrt(static_cast<double>(wanted) / v);
    for (int k : {0, 1}) result[k] = std::llround(sizes[k] * scale);
    return result;
  }
  for (int k : {0, 1}) {
    if (more[k] == v) continue;
    result[k] +=
        std::llround(static_cast<double>(wanted - v) * kStep / (more[k] - v));
  }
  return result;
}

}  // namespace

std::optional<Shape> GraphIndex::GraphShape(TensorRef tensor, int probe) const {
  const Shape* const known = shape(tensor, probe);
  if (!known) return std::nullopt;
  Shape result = *known;
  if (nodes_[tensor.node].sequences[tensor.port]) {
    result.erase(result.begin() + 1);
  }
  return result;
}

ImageSize GraphIndex::CorrectedSizes(const ImageSize& sizes) const {
  ImageSize result = sizes;
  for (int i : order_) {
    const std::vector<TensorRef>& inputs = nodes_[i].inputs;
    if (inputs.size() < 2) continue;
    std::array<std::optional<Shape>, 3> x, y;
    for (int probe = 0; probe < 3; ++probe) {
      x[probe] = GraphShape(inputs[0], probe);
      y[probe] = GraphShape(inputs[1], probe);
    }
    if (!x[0] || !y[0]) continue;
    for (const auto& [d, e] : EqualDimensions(node(i), *x[0], *y[0])) {
      const int64_t a = (*x[0])[d], b = (*y[0])[e];
      if (Fit(node(i), a, b) || !x[1] || !x[2] || !y[1] || !y[2]) continue;
      const ImageSize more_a = {(*x[1])[d], (*x[2])[d]};
      const ImageSize more_b = {(*y[1])[e], (*y[2])[e]};
      const bool fixed_a = more_a[0] == a && more_a[1] == a;
      const bool fixed_b = more_b[0] == b && more_b[1] == b;
      if (fixed_a == fixed_b || a < 1 || b < 1) continue;
      const auto solved =
          fixed_b ? Solve(sizes, a, more_a, b) : Solve(sizes, b, more_b, a);
      for (int k : {0, 1}) {
        // If several nodes determine a size, the first one is used.
        if (result[k] == sizes[k] && solved[k] >= 1 &&
            solved[k] <= kMaxDimension) {
          result[k] = solved[k];
        }
      }
    }
  }
  return result;
}

bool GraphIndex::HasMisfits() const {
  return std::any_of(order_.begin(), order_.end(), [&](int i) {
    const std::vector<TensorRef>& inputs = nodes_[i].inputs;
    if (inputs.size() < 2) return false;
    const auto x = GraphShape(inputs[0], 0), y = GraphShape(inputs[1], 0);
    if (!x || !y) return false;
    const std::vector<Pair> pairs = EqualDimensions(node(i), *x, *y);
    return std::any_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return !Fit(node(i), (*x)[pair.x], (*y)[pair.y]);
    });
  });
}

void GraphIndex::ForgetShapes() {
  for (Node& node : nodes_) {
    node.shapes.clear();
    node.dtypes.clear();
    node.sequences.clear();
  }
  integers_.clear();
  bounds_.clear();
  probes_ = 0;
}

absl::StatusOr<std::optional<ImageSize>> GraphIndex::FittingSizes(
    const Infer& infer, const Probe& example) {
  // Few rounds suffice: linear extrapolation is exact except for rounding.
  constexpr int kRounds = 4;
  Probe probe = example;
  std::optional<ImageSize> found;
  for (int round = 0; round < kRounds && !found; ++round) {
    ForgetShapes();
    TF_RETURN_IF_ERROR(infer(probe, true).status());
    for (int k : {0, 1}) {
      Probe more = probe;
      more.sizes[k] += kStep;
      TF_RETURN_IF_ERROR(infer(more, false).status());
    }
    const ImageSize corrected = CorrectedSizes(probe.sizes);
    if (corrected == probe.sizes) break;
    probe.sizes = corrected;
    ForgetShapes();
    TF_RETURN_IF_ERROR(infer(probe, true).status());
    if (!HasMisfits()) found = probe.sizes;
  }
  ForgetShapes();
  return found;
}

}  // namespace ios::tf
