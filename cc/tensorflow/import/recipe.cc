#include "cc/tensorflow/import/recipe.h"

#include <utility>

namespace ios::tf {
namespace {

void Transpose(const std::array<int64_t, 4>& dimensions,
               std::vector<float>* values) {
  const auto [a, b, c, d] = dimensions;
  const std::vector<float> from = std::move(*values);
  values->clear();
  values->reserve(from.size());
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t k = 0; k < c; ++k) {
      for (int64_t j = 0; j < b; ++j) {
        const auto row = from.begin() + ((i * b + j) * c + k) * d;
        values->insert(values->end(), row, row + d);
      }
    }
  }
}

}  // namespace

Status Recipe::Validate(int64_t values) const {
  for (const auto& dimensions : swaps) {
    int64_t left = values;
    for (int64_t size : dimensions) {
      if (size < 1 || left % size != 0) {
        return InvalidArgument("swaps do not match the weight's size");
      }
      left /= size;
    }
    if (left != 1)
      return InvalidArgument("swaps do not match the weight's size");
  }
  if (!scale.empty() && values % static_cast<int64_t>(scale.size()) != 0) {
    return InvalidArgument(
        "the weight's number of elements is not a multiple of the number of "
        "scales");
  }
  return Status();
}

void Recipe::Apply(std::vector<float>* values) const {
  for (const auto& dimensions : swaps) Transpose(dimensions, values);
  if (scale.empty()) return;
  for (size_t k = 0; k < values->size(); ++k) {
    (*values)[k] *= scale[k % scale.size()];
  }
}

}  // namespace ios::tf
