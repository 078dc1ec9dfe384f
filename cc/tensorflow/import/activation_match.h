// Recognises activations by their values, however a graph writes them.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_

#include <optional>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios::tf {

// Samples of a function of one number. The float32 values come from the
// engine's own kernels, and show how the function treats infinities and NaN.
// The float64 values distinguish functions that differ by less than float32
// rounding. (For example, relu(x) and relu(x) + 1e-6 have very different
// logarithms.)
struct SampledFunction {
  std::vector<float> rounded;          // at RoundedSamples()
  std::vector<double> samples, exact;  // ExactSamples() and their values
};

// Returns numbers of all magnitudes, infinities and NaN.
const std::vector<float>& RoundedSamples();

// Returns finite samples. Some of them are next to each number that may be a
// bound of a function with these constants.
std::vector<double> ExactSamples(const std::vector<float>& constants);

// Returns many more samples, which prove a match. They cover all magnitudes,
// both sides of each number in `turns`, and the ranges between these numbers.
// `turns` are the numbers where the function may turn into another one.
std::vector<double> ProvingSamples(std::vector<double> turns);

// Returns the activation that equals this function at all samples, or nullopt.
std::optional<Activation> MatchActivation(const SampledFunction& function);

// Returns true if an activation has these values at these samples, up to
// rounding.
bool HasValues(const Activation& activation, const std::vector<double>& samples,
               const std::vector<double>& values);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
