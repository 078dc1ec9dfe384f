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
  // Each entry [a,b,c,d] transposes values of this shape to [a,c,b,d]. The
  // entries apply one after the other.
  std::vector<std::array<int64_t, 4>> swaps;
  // Afterwards, value k is multiplied by scale[k % scale.size()]. Empty: no
  // scale.
  std::vector<float> scale;

  bool empty() const { return swaps.empty() && scale.empty(); }
  // Returns an error if the recipe does not fit this number of values.
  Status Validate(int64_t values) const;
  void Apply(std::vector<float>* values) const;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_RECIPE_H_
