#include "cc/tensorflow/import/activation_match.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "cc/engine/cpu/kernels/activations.h"

namespace ios::tf {
namespace {

// Parameters are read off at these samples, which come first.
constexpr float kReadOff[] = {0.0f, 1.0f, -1.0f, 0.25f, -20.0f, 1e4f, -1e4f};

// Of values above 1 in magnitude, relative.
constexpr float kTolerance = 1e-5f;

// A graph's constants have few digits.
float Rounded(float parameter) {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.6g", parameter);
  return std::strtof(digits, nullptr);
}

bool Alike(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::abs(a - b) <= kTolerance * std::max(1.0f, std::abs(b));
}

bool IsOf(const Activation& activation, const std::vector<float>& values) {
  const std::vector<float>& samples = ActivationSamples();
  std::vector<float> computed(samples.size());
  cpu::ActivateRow(samples.data(), samples.size(), activation, computed.data());
  return std::equal(values.begin(), values.end(), computed.begin(), Alike);
}

}  // namespace

const std::vector<float>& ActivationSamples() {
  static const auto* const kSamples = [] {
    auto* samples =
        new std::vector<float>(std::begin(kReadOff), std::end(kReadOff));
    for (int i = -48; i <= 48; ++i) samples->push_back(i / 8.0f + 0.01f);
    for (float large : {10.0f, 30.0f, 70.0f, 300.0f, 1e6f}) {
      samples->insert(samples->end(), {large, -large});
    }
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    samples->insert(samples->end(), {kInfinity, -kInfinity,
                                     std::numeric_limits<float>::quiet_NaN()});
    return samples;
  }();
  return *kSamples;
}

std::optional<Activation> MatchActivation(const std::vector<float>& values) {
  const float at_0 = values[0], at_1 = values[1], at_minus_1 = values[2],
              at_quarter = values[3], at_minus_20 = values[4], top = values[5],
              bottom = values[6];
  std::vector<Activation> candidates;
  for (int kind = 1; kind < Activation::kKinds; ++kind) {
    candidates.emplace_back(static_cast<Activation::Kind>(kind));
  }
  const auto add = [&](Activation::Kind kind, float alpha, float beta = 0.0f) {
    if (std::isfinite(alpha) && std::isfinite(beta)) {
      candidates.emplace_back(kind, Rounded(alpha), Rounded(beta));
    }
  };
  add(Activation::kLeakyRelu, -at_minus_1);
  add(Activation::kElu, -at_minus_20);
  add(Activation::kSwish, std::log(at_1 / (1.0f - at_1)));
  add(Activation::kHardSigmoid, (at_quarter - at_0) * 4.0f, at_0);
  add(Activation::kMaximum, bottom);
  add(Activation::kMinimum, top);
  add(Activation::kClip, bottom, top);
  for (float exponent : {2.0f, 4.0f, -1.0f, -2.0f, -3.0f, -4.0f}) {
    add(Activation::kPow, exponent);
  }
  for (const Activation& candidate : candidates) {
    if (IsOf(candidate, values)) return candidate;
  }
  return std::nullopt;
}

}  // namespace ios::tf
