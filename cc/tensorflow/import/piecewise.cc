#include "cc/tensorflow/import/piecewise.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>

namespace ios::tf {
namespace {

std::vector<double> Union(
    std::initializer_list<const std::vector<double>*> several) {
  std::vector<double> ends;
  for (const std::vector<double>* one : several) {
    ends.insert(ends.end(), one->begin(), one->end());
  }
  ends.erase(std::remove_if(ends.begin(), ends.end(),
                            [](double end) { return !std::isfinite(end); }),
             ends.end());
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

// Returns a number inside piece `k` of the pieces that `ends` separates.
double Inside(const std::vector<double>& ends, size_t k) {
  if (ends.empty()) return 0.0;
  if (k == 0) return ends[0] - std::abs(ends[0]) - 1.0;
  if (k == ends.size()) return ends[k - 1] + std::abs(ends[k - 1]) + 1.0;
  return ends[k - 1] + (ends[k] - ends[k - 1]) / 2.0;
}

}  // namespace

const Piecewise::Line& Piecewise::LineAt(double x) const {
  return lines_[std::upper_bound(ends_.begin(), ends_.end(), x) -
                ends_.begin()];
}

double Piecewise::At(double x) const {
  const Line& line = LineAt(x);
  return line.slope * x + line.shift;
}

std::vector<double> Piecewise::Where(double value) const {
  std::vector<double> found;
  for (size_t k = 0; k < lines_.size(); ++k) {
    const Line& line = lines_[k];
    if (line.slope == 0.0) continue;
    const double x = (value - line.shift) / line.slope;
    if ((k > 0 && x < ends_[k - 1]) || (k < ends_.size() && x > ends_[k])) {
      continue;
    }
    found.push_back(x);
  }
  return found;
}

Piecewise Piecewise::Scaled(double scale, double shift) const {
  Piecewise result = *this;
  for (Line& line : result.lines_) {
    line = {line.slope * scale, line.shift * scale + shift};
  }
  return result;
}

Piecewise Piecewise::Select(const std::vector<double>& values,
                            const std::function<bool(double)>& holds,
                            const Piecewise& first,
                            const Piecewise& second) const {
  std::vector<double> turns;
  for (double value : values) {
    const std::vector<double> more = Where(value);
    turns.insert(turns.end(), more.begin(), more.end());
  }
  Piecewise result;
  result.ends_ = Union({&ends_, &first.ends_, &second.ends_, &turns});
  for (size_t k = 0; k <= result.ends_.size(); ++k) {
    const double x = Inside(result.ends_, k);
    result.lines_.push_back((holds(At(x)) ? first : second).LineAt(x));
  }
  return result;
}

std::optional<Piecewise> Piecewise::Combine(BinaryFunction function,
                                            const Piecewise& a,
                                            const Piecewise& b) {
  if (function == BinaryFunction::kMaximum ||
      function == BinaryFunction::kMinimum) {
    const bool larger = function == BinaryFunction::kMaximum;
    return Combine(BinaryFunction::kSubtract, a, b)
        ->Select({0.0}, [&](double v) { return (v > 0.0) == larger; }, a, b);
  }
  Piecewise result;
  result.ends_ = Union({&a.ends_, &b.ends_});
  for (size_t k = 0; k <= result.ends_.size(); ++k) {
    const double x = Inside(result.ends_, k);
    const Line &p = a.LineAt(x), &q = b.LineAt(x);
    switch (function) {
      case BinaryFunction::kAdd:
        result.lines_.push_back({p.slope + q.slope, p.shift + q.shift});
        break;
      case BinaryFunction::kSubtract:
        result.lines_.push_back({p.slope - q.slope, p.shift - q.shift});
        break;
      case BinaryFunction::kMultiply:
        if (p.slope != 0.0 && q.slope != 0.0) return std::nullopt;
        result.lines_.push_back(
            {p.slope * q.shift + q.slope * p.shift, p.shift * q.shift});
        break;
      case BinaryFunction::kDivide:
        if (q.slope != 0.0 || q.shift == 0.0) return std::nullopt;
        result.lines_.push_back({p.slope / q.shift, p.shift / q.shift});
        break;
      default:
        return std::nullopt;
    }
  }
  return result;
}

std::optional<Piecewise> Piecewise::Activate(
    const Activation& activation) const {
  const double alpha = activation.alpha, beta = activation.beta;
  const auto above = [&](double limit, const Piecewise& below) {
    return Select({limit}, [=](double v) { return v > limit; }, *this, below);
  };
  const auto clip = [](const Piecewise& x, double low, double high) {
    return *Combine(BinaryFunction::kMaximum,
                    *Combine(BinaryFunction::kMinimum, x, Constant(high)),
                    Constant(low));
  };
  switch (activation.kind) {
    case Activation::kNone:
      return *this;
    case Activation::kRelu:
      return above(0.0, Constant(0.0));
    case Activation::kRelu6:
      return clip(*this, 0.0, 6.0);
    case Activation::kLeakyRelu:
      return above(0.0, Scaled(alpha, 0.0));
    case Activation::kThreshold:
      return above(alpha, Constant(0.0));
    case Activation::kAbs:
      return above(0.0, Scaled(-1.0, 0.0));
    case Activation::kHardSigmoid:
      return clip(Scaled(alpha, beta), 0.0, 1.0);
    case Activation::kMaximum:
      return above(alpha, Constant(alpha));
    case Activation::kMinimum:
      return *Combine(BinaryFunction::kMinimum, *this, Constant(alpha));
    case Activation::kClip:
      return clip(*this, alpha, beta);
    default:
      return std::nullopt;
  }
}

}  // namespace ios::tf
