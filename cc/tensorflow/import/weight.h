// Weight: an operator's filter or vector, of a constant or of a variable.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_WEIGHT_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_WEIGHT_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/import/recipe.h"

namespace ios::tf {

struct Weight {
  Weight(std::vector<float> values) : values(std::move(values)) {}  // NOLINT
  explicit Weight(TensorRef variable) : variable(variable) {}

  bool constant() const { return variable.node < 0; }
  // Both change the values, or the recipe for them; see Recipe. Factors belong
  // to the last dimension, which swaps that come later must leave the last.
  void Swap(const std::array<int64_t, 4>& dimensions);
  void Scale(const std::vector<float>& factors);
  // Whether Scale() makes infinity of no number; of a variable's, nobody knows.
  bool StaysFinite(const std::vector<float>& factors) const;

  std::vector<float> values;     // of a constant
  TensorRef variable = {-1, 0};  // what reads the variable
  Recipe recipe;                 // of a variable
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_WEIGHT_H_
