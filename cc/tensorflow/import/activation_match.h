// Recognises activations by what they compute, however a graph writes them.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_

#include <optional>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios::tf {

// Where functions are compared: numbers of all magnitudes, infinities and NaN.
const std::vector<float>& ActivationSamples();

// The activation whose values at ActivationSamples() are `values`, but for
// rounding.
std::optional<Activation> MatchActivation(const std::vector<float>& values);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_ACTIVATION_MATCH_H_
