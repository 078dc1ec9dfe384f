// Recognises activations by what they compute, however a graph writes them.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_

#include <optional>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios::tf {

// A function of one number, at samples of it: in float32, by the engine's own
// kernels, which tells what it does to infinities and NaN; and in float64,
// which tells it from others that differ by less than float32's rounding, as
// relu(x) and relu(x) + 1e-6, whose logarithms have little in common.
struct SampledFunction {
  std::vector<float> rounded;          // at RoundedSamples()
  std::vector<double> samples, exact;  // ExactSamples(), the values there
};

// Numbers of all magnitudes, infinities and NaN.
const std::vector<float>& RoundedSamples();

// Finite ones, and some beside each number that may be a bound of a function
// with these constants.
std::vector<double> ExactSamples(const std::vector<float>& constants);

// Many more, by which a match is proved: of all magnitudes, beside the numbers
// where the function `turns`, and between them.
std::vector<double> ProvingSamples(std::vector<double> turns);

// In float64, with the relative errors of its elementary functions.
double Exact(const Activation& activation, double v);
double Exact(BinaryFunction function, double a, double b);

// The activation that is this function, as far as its samples tell.
std::optional<Activation> MatchActivation(const SampledFunction& function);

// Whether an activation has these values at these samples.
bool HasValues(const Activation& activation, const std::vector<double>& samples,
               const std::vector<double>& values);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
