// Recognises activations by the values that they compute, because graphs write
// them in many ways.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_

#include <optional>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios::tf {

// Samples of a function of one number. The float32 values come from the
// engine's own kernels, and show how the function treats infinities and NaN.
// The float64 values distinguish functions that differ by less than float32
// rounding, because a later operator may magnify the difference. (For example,
// relu(x) and relu(x) + 1e-6 have very different logarithms.)
struct SampledFunction {
  std::vector<float> rounded;          // at RoundedSamples()
  std::vector<double> samples, exact;  // ExactSamples() and their values
};

// Returns sample inputs: numbers of all magnitudes, infinities and NaN.
const std::vector<float>& RoundedSamples();

// Returns finite samples. They include numbers just below and above each value
// at which a function with these constants may be clipped.
std::vector<double> ExactSamples(const std::vector<float>& constants);

// Returns many more samples, to confirm a match. `turns` has the inputs at
// which the function may change from one formula to another. The samples cover
// all magnitudes, both sides of each turn, and the ranges between turns.
std::vector<double> ProvingSamples(std::vector<double> turns);

// Returns the activation that equals this function at all samples, or nullopt
// if none does.
std::optional<Activation> MatchActivation(const SampledFunction& function);

// Returns true if the activation has the value values[i] at samples[i] for all
// i, up to rounding.
bool HasValues(const Activation& activation, const std::vector<double>& samples,
               const std::vector<double>& values);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
