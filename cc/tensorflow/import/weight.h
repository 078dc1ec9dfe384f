// Weight: an operator's filter or vector, from a constant or a variable.
#ifndef IOS_TF_CC_TENSORFLOW_IMPORT_WEIGHT_H_
#define IOS_TF_CC_TENSORFLOW_IMPORT_WEIGHT_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/import/recipe.h"

namespace ios::tf {

struct Weight {
  Weight(std::vector<float> values) : values(std::move(values)) {}  // NOLINT
  explicit Weight(TensorRef variable) : variable(variable) {}

  bool constant() const { return variable.node < 0; }
  // Swap() transposes the weight, and Scale() multiplies its last dimension by
  // factors. For a constant, they change the values; for a variable, the recipe
  // (see Recipe). After Scale(), Swap() must keep the last dimension last.
  void Swap(const std::array<int64_t, 4>& dimensions);
  void Scale(const std::vector<float>& factors);
  // Returns true if Scale() with these factors keeps all finite values finite.
  // For a variable, whose values are unknown, the result is true.
  bool StaysFinite(const std::vector<float>& factors) const;

  std::vector<float> values;     // of a constant
  TensorRef variable = {-1, 0};  // the node that reads the variable
  Recipe recipe;                 // of a variable
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_IMPORT_WEIGHT_H_
