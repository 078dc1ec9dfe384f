#include "cc/tensorflow/import/weight.h"

#include <algorithm>
#include <cmath>

namespace ios::tf {

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
  // Factors of at most 1 in magnitude keep all values finite, so the values
  // need not be read. Folding a bias, for example, has factors of 1.
  if (std::all_of(factors.begin(), factors.end(),
                  [](float f) { return std::abs(f) <= 1; })) {
    return true;
  }
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
