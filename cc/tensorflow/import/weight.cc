#include "cc/tensorflow/import/weight.h"

#include <algorithm>
#include <cmath>

namespace ios::tf {

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float v) { return std::isfinite(v); });
}

void Weight::Swap(const std::array<int64_t, 4>& dimensions) {
  if (constant()) {
    Recipe{{dimensions}, {}}.Apply(&values);
  } else {
    recipe.swaps.push_back(dimensions);
  }
}

void Weight::Scale(const std::vector<float>& factors) {
  if (constant()) {
    Recipe{{}, factors}.Apply(&values);
  } else if (recipe.scale.empty()) {
    recipe.scale = factors;
  } else {
    Recipe{{}, factors}.Apply(&recipe.scale);
  }
}

bool Weight::StaysFinite(const std::vector<float>& factors) const {
  for (size_t k = 0; k < values.size(); ++k) {
    const float value = values[k];
    if (std::isfinite(value) &&
        !std::isfinite(value * factors[k % factors.size()])) {
      return false;
    }
  }
  return true;
}

}  // namespace ios::tf
