#include "cc/tensorflow/import/activation_match.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace ios::tf {
namespace {

// RoundedSamples() and ExactSamples() begin with these numbers.
// MatchActivation() computes the parameters of activations from the function's
// values at these numbers.
constexpr float kReadOff[] = {0.0f, 1.0f, -1.0f, 0.25f, -20.0f, 1e4f, -1e4f};
constexpr float kLarge[] = {10.0f, 30.0f, 70.0f, 300.0f, 1e6f};

// Tolerance for float32 values: relative if the value is above 1 in magnitude.
constexpr float kTolerance = 1e-5f;
// Tolerances for float64 values: kExactTolerance for the value, and
// kToleranceOfInput for the input. They are needed because a graph's constants
// are rounded to float32, and the function may magnify the rounding error. At
// inputs of at least kBounded in magnitude, a bounded function must equal its
// bound up to kToleranceOfBounds.
constexpr double kExactTolerance = 1e-5, kToleranceOfInput = 1e-7;
constexpr double kBounded = 1e4, kToleranceOfBounds = 5e-8;
// The absolute error that is allowed for small results: exp(x) - 1 and 1 +
// erf(x) lose digits there.
constexpr double kLostDigits = 1e-14;
// Numbers below this one are 0 in float32.
constexpr double kNothing = 1e-46;

// Rounds a parameter to six digits, because people write most constants with
// few digits.
float Rounded(double parameter) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.6g", parameter);
  return std::strtof(digits, nullptr);
}

bool Alike(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= kTolerance * std::max(1.0f, std::abs(b));
}

// Returns true if the function's value at `sample`, `value`, equals the
// activation's value `wanted` up to rounding.
bool Equal(double sample, double value, double wanted) {
  if (std::isnan(value) || std::isnan(wanted)) {
    return std::isnan(value) && std::isnan(wanted);
  }
  // A zero must be exact: a later operator may divide by it or take its
  // logarithm.
  if (wanted == 0.0) return std::abs(value) < kNothing;
  if (std::isinf(value) || std::isinf(wanted)) return value == wanted;
  const double difference = std::abs(value - wanted);
  const double size = std::abs(sample), wanted_size = std::abs(wanted);
  if (size >= kBounded) return difference <= kToleranceOfBounds * wanted_size;
  return difference <=
         kExactTolerance * wanted_size + kToleranceOfInput * size + kLostDigits;
}

bool IsOf(const Activation& activation, const SampledFunction& function) {
  if (!HasValues(activation, function.samples, function.exact)) return false;
  const std::vector<float>& samples = RoundedSamples();
  return std::equal(samples.begin(), samples.end(), function.rounded.begin(),
                    [&](float sample, float rounded) {
                      return Alike(rounded, Exact(activation, sample));
                    });
}

}  // namespace

const std::vector<float>& RoundedSamples() {
  static const auto* const kSamples = [] {
    auto* samples =
        new std::vector<float>(std::begin(kReadOff), std::end(kReadOff));
    for (int i = -48; i <= 48; ++i) samples->push_back(i / 8.0f + 0.01f);
    for (float large : kLarge) samples->insert(samples->end(), {large, -large});
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    samples->insert(samples->end(), {kInfinity, -kInfinity,
                                     std::numeric_limits<float>::quiet_NaN()});
    return samples;
  }();
  return *kSamples;
}

std::vector<double> ExactSamples(const std::vector<float>& constants) {
  std::vector<double> samples(std::begin(kReadOff), std::end(kReadOff));
  for (int i = -48; i <= 48; ++i) samples.push_back(i / 8.0 + 0.01);
  for (double large : kLarge) samples.insert(samples.end(), {large, -large});
  for (double small = 1e-12; small < 0.1; small *= 10) {
    samples.insert(samples.end(), {small, -small});
  }
  const auto add_bound = [&](double bound) {
    if (bound == 0.0 || !(std::abs(bound) < kBounded)) return;
    for (double side : {0.999, 1.001}) {
      samples.insert(samples.end(), {bound * side, -bound * side});
    }
  };
  for (double a : constants) {
    add_bound(a);
    add_bound(1 / a);
    for (double b : constants) {
      for (double bound : {a / b, a * b, a - b, a + b}) add_bound(bound);
    }
  }
  return samples;
}

std::vector<double> ProvingSamples(std::vector<double> turns) {
  constexpr int kPerDecade = 200;
  std::vector<double> samples;
  for (int i = -7 * kPerDecade; i <= 7 * kPerDecade; ++i) {
    const double sample = std::pow(10.0, static_cast<double>(i) / kPerDecade);
    samples.insert(samples.end(), {sample, -sample});
  }
  std::sort(turns.begin(), turns.end());
  for (size_t k = 0; k < turns.size(); ++k) {
    const double turn = turns[k];
    for (double side : {1e-3, 1e-6}) {
      samples.insert(samples.end(), {turn * (1 - side), turn * (1 + side)});
    }
    if (k == 0) continue;
    for (double part : {0.01, 0.25, 0.5, 0.75, 0.99}) {
      samples.push_back(turns[k - 1] + part * (turn - turns[k - 1]));
    }
  }
  return samples;
}

bool HasValues(const Activation& activation, const std::vector<double>& samples,
               const std::vector<double>& values) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!Equal(samples[i], values[i], Exact(activation, samples[i]))) {
      return false;
    }
  }
  return true;
}

std::optional<Activation> MatchActivation(const SampledFunction& function) {
  const std::vector<double>& values = function.exact;
  const double at_0 = values[0], at_1 = values[1], at_minus_1 = values[2],
               at_quarter = values[3], at_minus_20 = values[4], top = values[5],
               bottom = values[6];
  std::vector<Activation> candidates;
  for (const Activation::Properties& known : Activation::kAll) {
    if (known.kind != Activation::kNone) candidates.emplace_back(known.kind);
  }
  const auto add = [&](Activation::Kind kind, double alpha, double beta = 0.0) {
    if (!std::isfinite(alpha) || !std::isfinite(beta)) return;
    candidates.emplace_back(kind, Rounded(alpha), Rounded(beta));
    candidates.emplace_back(kind, static_cast<float>(alpha),
                            static_cast<float>(beta));
  };
  add(Activation::kLeakyRelu, -at_minus_1);
  add(Activation::kElu, -at_minus_20);
  add(Activation::kSwish, std::log(at_1 / (1.0 - at_1)));
  // With slope 0, a hard sigmoid is a constant. It would match x * 0, too, but
  // x * 0 is -0 for negative x, and the matcher ignores the sign of zero.
  if (at_quarter != at_0) {
    add(Activation::kHardSigmoid, (at_quarter - at_0) * 4.0, at_0);
  }
  add(Activation::kMaximum, bottom);
  add(Activation::kMinimum, top);
  add(Activation::kClip, bottom, top);
  for (double exponent : {2.0, 4.0, -1.0, -2.0, -3.0, -4.0}) {
    add(Activation::kPow, exponent);
  }
  for (const Activation& candidate : candidates) {
    if (IsOf(candidate, function)) return candidate;
  }
  return std::nullopt;
}

}  // namespace ios::tf
