#include "cc/tensorflow/shapes/bound_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "cc/core/limits.h"

namespace ios::tf {
namespace {

// For a bound that repeats: if its quotient (see BoundKey) reaches this number,
// the samples have passed several whole numbers, and no more samples are
// needed.
constexpr double kManyPeriods = 4;
// If a distance changes its sign this often, it oscillates with the size, like
// a remainder of a remainder, and there are enough samples on both sides.
constexpr size_t kManyBrackets = 6;
// The largest number of samples on a line (a series of samples in which only
// one size varies). If a bound needs more samples, the shapes that depend on it
// become unknown.
constexpr size_t kMostOnLine = 128;

// The size that varies between the samples of a line, while other sizes are
// constant.
enum class Vary { kBatch, kHeight, kWidth, kBoth };

// The samples of a line: maps the size that varies to the distances from all
// bounds.
using Line = std::map<int64_t, BoundDistances>;

ShapeSample OnLine(const ShapeSample& example, Vary vary, int64_t size) {
  ShapeSample sample = example;
  sample.optional = true;
  if (vary == Vary::kBatch) {
    sample.batch = size;
    return sample;
  }
  // The batch size is 2, because a batch of 1 would broadcast.
  sample.batch = 2;
  if (vary != Vary::kWidth) sample.sizes[0] = size;
  if (vary != Vary::kHeight) sample.sizes[1] = size;
  return sample;
}

// Returns the sizes of the line whose distance from the bound `key` is known,
// with this distance. For a bound that repeats, the distance is the quotient
// minus `period`.
std::vector<std::pair<int64_t, double>> Distances(const Line& line,
                                                  const BoundKey& key,
                                                  int period) {
  std::vector<std::pair<int64_t, double>> result;
  for (const auto& [size, distances] : line) {
    const auto it = distances.find(key);
    if (it != distances.end()) {
      result.emplace_back(size, it->second - (key.repeats ? period : 0));
    }
  }
  return result;
}

// Two neighboring samples of a line whose sizes, `below` and `above`, are on
// different sides of a bound. Also contains their distances from the bound.
struct Bracket {
  int64_t below, above;
  double at_below, at_above;  // distances
};

// Returns the first brackets among the samples of the line, at most
// kManyBrackets.
std::vector<Bracket> Brackets(
    const std::vector<std::pair<int64_t, double>>& distances) {
  std::vector<Bracket> result;
  for (size_t k = 1; k < distances.size(); ++k) {
    const auto& [a, x] = distances[k - 1];
    const auto& [b, y] = distances[k];
    if ((x < 0) != (y < 0)) result.push_back({a, b, x, y});
    if (result.size() == kManyBrackets) break;
  }
  return result;
}

// Adds sizes inside of the bracket: multiples of 32 near the root of the
// secant, because some networks accept only multiples of 32. If none of them is
// new, adds the sizes on both sides of the root, or else the middle of the
// bracket.
void Narrow(const Bracket& bracket, const Line& line,
            std::set<int64_t>* sizes) {
  constexpr int64_t kMultiple = 32;
  const int64_t width = bracket.above - bracket.below;
  const double slope = (bracket.at_above - bracket.at_below) / width;
  const double root = bracket.below - bracket.at_below / slope;
  // The root is not exact, because strides round sizes: it may be wrong by one
  // stride.
  const int64_t step = std::llround(std::ceil(1 / std::abs(slope))) + 1;
  bool narrowed = false;
  const auto add = [&](int64_t size) {
    if (size <= bracket.below || size >= bracket.above || line.count(size)) {
      return;
    }
    sizes->insert(size);
    narrowed = true;
  };
  if (width > 2 * (step + kMultiple)) {
    const int64_t whole = std::llround(root);
    add((whole - step) / kMultiple * kMultiple);
    add((whole + step + kMultiple) / kMultiple * kMultiple);
  }
  if (!narrowed) {
    // If the distance is linear, these two sizes are next to the bound.
    const int64_t above = std::llround(std::ceil(root));
    add(above - 1);
    add(above);
  }
  if (!narrowed) add(bracket.below + width / 2);
}

// Looks for a bound above all sizes of the line. `distances` has the sizes that
// TensorFlow accepted, with their distances from the bound (see Distances). If
// the distances of the two largest of these sizes tend to 0, returns a size
// that is probably above the bound.
//
// TensorFlow should accept the returned size, too. A network that halves images
// several times, for example, may accept only multiples of 32. So the returned
// size is the largest accepted size plus a multiple of a step. The steps are
// tried in this order until the line does not contain the size:
// - 1, for networks that accept all sizes
// - 96, for networks that accept only multiples of 3 or of powers of 2 up to 32
// - the difference between the two largest accepted sizes
// - 5 * 7 * 96, for networks that accept only multiples of 5 or 7.
std::optional<int64_t> Extrapolate(
    const Line& line,
    const std::vector<std::pair<int64_t, double>>& distances) {
  if (distances.size() < 2) return std::nullopt;
  const auto& [a, x] = distances[distances.size() - 2];
  const auto& [b, y] = distances.back();
  if (x == y || (y < 0) == (y < x)) return std::nullopt;  // the distance grows
  const double root = b - y * (b - a) / (y - x);
  if (!(root < kMaxDimension)) return std::nullopt;
  const int64_t beyond =
      std::max<int64_t>(std::llround(std::ceil(root)) + 1, b + 1);
  for (int64_t step : {int64_t{1}, int64_t{96}, b - a, int64_t{5 * 7 * 96}}) {
    const int64_t size = b + (beyond - b + step - 1) / step * step;
    if (line.count(size) == 0) return size;
  }
  return std::nullopt;
}

// Returns the quotients (values of `period`, see Distances) at which the node
// changes. Samples are needed on both sides of each quotient.
std::vector<int> Periods(const BoundKey& key) {
  return key.repeats ? std::vector<int>{1, 2} : std::vector<int>{0};
}

// Returns the sizes of the samples to add to the line. They are near the bounds
// that need more samples, or beyond all bounds.
std::set<int64_t> NextSizes(const Line& line, const std::set<BoundKey>& open) {
  std::set<int64_t> next;
  int64_t largest = 0;
  for (const BoundKey& key : open) {
    for (int period : Periods(key)) {
      const auto distances = Distances(line, key, period);
      const std::vector<Bracket> brackets = Brackets(distances);
      if (brackets.size() == kManyBrackets) continue;
      for (const Bracket& bracket : brackets) {
        Narrow(bracket, line, &next);
        largest = std::max(largest, bracket.above);
      }
      const auto beyond = Extrapolate(line, distances);
      if (beyond) next.insert(*beyond);
    }
  }
  // If there are no such sizes, adds an odd size far above all bounds that were
  // found so far. It is unlikely to be a multiple of a bound. For a multiple,
  // the remainder of a division by the bound is 0, which is a special case.
  const int64_t beyond = 2 * largest + 31;
  if (next.empty() && beyond > line.rbegin()->first) next.insert(beyond);
  return next;
}

// Returns the bounds that may need more samples. A bound needs none if all
// samples have the same distance from it, or if it repeats and the samples have
// passed several whole numbers.
std::set<BoundKey> OpenBounds(const ShapeSampler& sampler) {
  std::map<BoundKey, std::array<double, 2>> ranges;
  for (const SampleShapes& sample : sampler.samples()) {
    for (const auto& [key, distance] : sample.bounds) {
      auto& [least, most] =
          ranges.emplace(key, std::array{distance, distance}).first->second;
      least = std::min(least, distance);
      most = std::max(most, distance);
    }
  }
  std::set<BoundKey> open;
  for (const auto& [key, range] : ranges) {
    const auto& [least, most] = range;
    if (least == most || (key.repeats && most >= kManyPeriods)) continue;
    open.insert(key);
  }
  return open;
}

// Makes the shapes of these nodes, and of all nodes that depend on them,
// unknown.
void ForgetShapesBehind(const std::set<int>& nodes, ShapeSampler* sampler) {
  if (nodes.empty()) return;
  const GraphView& view = sampler->view();
  std::vector<bool> behind(view.size(), false);
  for (int i : view.order()) {
    const std::vector<TensorRef>& inputs = view.inputs(i);
    behind[i] = nodes.count(i) > 0 ||
                std::any_of(inputs.begin(), inputs.end(),
                            [&](TensorRef t) { return behind[t.node]; });
    if (behind[i]) sampler->ForgetShapes(i);
  }
}

}  // namespace

std::vector<ShapeSample> AddBoundSamples(const ShapeSample& example,
                                         const VaryingSizes& varying,
                                         ShapeSampler* sampler) {
  const std::set<BoundKey> open = OpenBounds(*sampler);
  if (open.empty()) return {};
  std::vector<ShapeSample> result;
  std::set<int> unresolved;  // nodes that need too many samples
  std::vector<Vary> lines;
  if (varying.batches) lines.push_back(Vary::kBatch);
  if (varying.heights) lines.push_back(Vary::kHeight);
  if (varying.widths) lines.push_back(Vary::kWidth);
  if (varying.heights && varying.widths) lines.push_back(Vary::kBoth);
  for (Vary vary : lines) {
    Line line;
    std::set<int64_t> next = {1, 2, 5, 17, 61, 131};
    if (vary == Vary::kBatch) {
      next.insert({example.batch, example.batch + 1, 10007});
    } else {
      const int64_t size = example.sizes[vary == Vary::kWidth];
      next.insert({size, size + 96, 2 * size, 32 * 331});
    }
    while (!next.empty()) {
      if (line.size() + next.size() > kMostOnLine) {
        for (const BoundKey& key : open) unresolved.insert(key.node);
        break;
      }
      for (int64_t size : next) {
        // A size that TensorFlow refuses has no distances to bounds.
        const bool accepts = sampler->Add(OnLine(example, vary, size)).ok();
        line[size] =
            accepts ? sampler->samples().back().bounds : BoundDistances();
      }
      next = NextSizes(line, open);
    }
    for (const BoundKey& key : open) {
      for (int period : Periods(key)) {
        for (const Bracket& bracket : Brackets(Distances(line, key, period))) {
          for (int64_t size :
               {bracket.below, bracket.above, bracket.above + 1}) {
            result.push_back(OnLine(example, vary, size));
          }
        }
      }
    }
  }
  ForgetShapesBehind(unresolved, sampler);
  return result;
}

}  // namespace ios::tf
