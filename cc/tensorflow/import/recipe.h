// Recipe: how the values of a variable become an operator's weight.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_RECIPE_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_RECIPE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "cc/core/status.h"

namespace ios::tf {

struct Recipe {
  // Values are [a,b,c,d] and become [a,c,b,d]; one after the other.
  std::vector<std::array<int64_t, 4>> swaps;
  // Value k is then multiplied by scale[k % scale.size()]; empty: it is not.
  std::vector<float> scale;

  bool empty() const { return swaps.empty() && scale.empty(); }
  // Whether it can be applied to so many values.
  Status Validate(int64_t values) const;
  void Apply(std::vector<float>* values) const;
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_RECIPE_H_
