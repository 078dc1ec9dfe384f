// Recipe: the steps that turn the values of a variable into an operator's
// weight.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_RECIPE_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_RECIPE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "cc/core/status.h"

namespace ios::tf {

struct Recipe {
  // Transpositions, which are applied one after the other. An entry {a,b,c,d}
  // transposes values of the shape [a,b,c,d] to [a,c,b,d].
  std::vector<std::array<int64_t, 4>> swaps;
  // After the transpositions, value k is multiplied by scale[k % scale.size()].
  // If `scale` is empty, nothing is multiplied.
  std::vector<float> scale;

  bool empty() const { return swaps.empty() && scale.empty(); }
  // Returns an error if the recipe does not fit this number of values.
  Status Validate(int64_t values) const;
  void Apply(std::vector<float>* values) const;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_RECIPE_H_
