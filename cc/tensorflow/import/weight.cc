#include "cc/tensorflow/import/weight.h"

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

}  // namespace ios::tf
