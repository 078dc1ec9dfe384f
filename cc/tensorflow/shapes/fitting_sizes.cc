#include "cc/tensorflow/shapes/fitting_sizes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "cc/core/limits.h"
#include "cc/tensorflow/graph/attributes.h"
#include "cc/tensorflow/graph/one_of.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// An input size is increased by this step to find the dimensions that depend on
// it. The step is a multiple of the numbers by which networks usually divide
// sizes.
constexpr int64_t kStep = 96;

// Two dimensions that must be equal: dimension `x` of a node's first input, and
// dimension `y` of its second input.
struct Pair {
  size_t x, y;
};

// Returns the pairs of dimensions that must be equal. (In elementwise
// operations, one dimension of a pair may also be 1.)
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

// Returns the input sizes at which a dimension is `wanted`, by linear
// extrapolation. The dimension is `v` for the input sizes `sizes`, and more[k]
// if sizes[k] is larger by kStep.
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

// Returns a shape with the rank that the tensor has in the graph: sequences
// have rank 3.
std::optional<Shape> GraphShape(const ShapeSampler& sampler, TensorRef tensor,
                                int sample) {
  const Shape* const known = sampler.shape(tensor, sample);
  if (!known) return std::nullopt;
  Shape result = *known;
  if (sampler.types().IsSequence(tensor)) result.erase(result.begin() + 1);
  return result;
}

// Returns input sizes for which more operands have matching shapes. The sampler
// must have three samples: one with `sizes`, one with a larger height and one
// with a larger width.
ImageSize CorrectedSizes(const ShapeSampler& sampler, const ImageSize& sizes) {
  const GraphView& view = sampler.view();
  ImageSize result = sizes;
  for (int i : view.order()) {
    const NodeDef& node = view.node(i);
    const std::vector<TensorRef>& inputs = view.inputs(i);
    if (inputs.size() < 2) continue;
    std::array<std::optional<Shape>, 3> x, y;
    for (int sample = 0; sample < 3; ++sample) {
      x[sample] = GraphShape(sampler, inputs[0], sample);
      y[sample] = GraphShape(sampler, inputs[1], sample);
    }
    if (!x[0] || !y[0]) continue;
    for (const auto& [d, e] : EqualDimensions(node, *x[0], *y[0])) {
      const int64_t a = (*x[0])[d], b = (*y[0])[e];
      if (Fit(node, a, b) || !x[1] || !x[2] || !y[1] || !y[2]) continue;
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

}  // namespace

bool HasMisfits(const ShapeSampler& sampler) {
  const GraphView& view = sampler.view();
  return std::any_of(view.order().begin(), view.order().end(), [&](int i) {
    const std::vector<TensorRef>& inputs = view.inputs(i);
    if (inputs.size() < 2) return false;
    const auto x = GraphShape(sampler, inputs[0], 0);
    const auto y = GraphShape(sampler, inputs[1], 0);
    if (!x || !y) return false;
    const std::vector<Pair> pairs = EqualDimensions(view.node(i), *x, *y);
    return std::any_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return !Fit(view.node(i), (*x)[pair.x], (*y)[pair.y]);
    });
  });
}

absl::StatusOr<std::optional<ImageSize>> FindFittingSizes(
    const ShapeSample& example, ShapeSampler* sampler) {
  // Each round extrapolates linearly to a size that may fit. Four rounds are
  // enough, because the extrapolation is exact except for rounding.
  constexpr int kRounds = 4;
  ShapeSample sample = example;
  std::optional<ImageSize> fitting;
  for (int round = 0; round < kRounds && !fitting; ++round) {
    sampler->Clear();
    TF_RETURN_IF_ERROR(sampler->Add(sample).status());
    for (int k : {0, 1}) {
      ShapeSample larger = sample;
      larger.sizes[k] += kStep;
      TF_RETURN_IF_ERROR(sampler->Add(larger).status());
    }
    const ImageSize corrected = CorrectedSizes(*sampler, sample.sizes);
    if (corrected == sample.sizes) break;
    sample.sizes = corrected;
    sampler->Clear();
    TF_RETURN_IF_ERROR(sampler->Add(sample).status());
    if (!HasMisfits(*sampler)) fitting = sample.sizes;
  }
  sampler->Clear();
  return fitting;
}

}  // namespace ios::tf
