#include "cc/tensorflow/ops/region_weights.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/tensorflow/graph/dtypes.h"
#include "cc/tensorflow/import/recipe.h"

namespace ios::tf {

using ::tensorflow::Tensor;

StatusOr<RegionWeights> RegionWeights::Create(const RegionProgram& program,
                                              std::vector<Tensor> tensors) {
  const Block& block = program.block;
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, InferShapes(block));
  RegionWeights result;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    result.operators_.push_back(result.slots_.size());
    for (Shape& shape :
         WeightShapes(op, ShapeOf(block, shapes, op.inputs[0]))) {
      result.slots_.push_back({op.name, std::move(shape)});
    }
  }
  if (result.slots_.size() != tensors.size()) {
    return InvalidArgument(absl::StrCat("the op has ", tensors.size(),
                                        " weights, but the program takes ",
                                        result.slots_.size()));
  }
  for (size_t p = 0; p < program.parameters.size(); ++p) {
    const size_t weight = program.parameters[p].weight;
    if (weight >= tensors.size() || result.slots_[weight].parameter >= 0) {
      return InvalidArgument(
          absl::StrCat("parameter ", p,
                       " must refer to an existing weight that no other "
                       "parameter refers to"));
    }
    result.slots_[weight].parameter = p;
  }
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Slot& slot = result.slots_[k];
    const int64_t elements = NumElements(slot.shape);
    const std::string weight =
        absl::StrCat("weight ", k, " of operator '", slot.name, "'");
    if (tensors[k].dtype() != tensorflow::DT_FLOAT) {
      return InvalidArgument(
          absl::StrCat(weight, " must have type float, not ",
                       tensorflow::DataTypeString(tensors[k].dtype())));
    }
    if (slot.parameter < 0) {
      if (tensors[k].NumElements() != elements) {
        return InvalidArgument(absl::StrCat(weight, " must have ", elements,
                                            " elements, not ",
                                            tensors[k].NumElements()));
      }
      continue;
    }
    const Recipe recipe = {program.parameters[slot.parameter].swaps,
                           Floats(tensors[k])};
    const Status valid = recipe.Validate(elements);
    if (!valid.ok()) {
      return InvalidArgument(absl::StrCat(weight, ": ", valid.message()));
    }
  }
  result.parameters_ = program.parameters;
  result.tensors_ = std::move(tensors);
  return result;
}

StatusOr<Weights> RegionWeights::Values(
    const std::vector<Tensor>& parameters,
    std::vector<std::vector<float>>* made) const {
  Weights weights(operators_.size());
  size_t op = 0;
  for (size_t k = 0; k < slots_.size(); ++k) {
    const Slot& slot = slots_[k];
    while (op + 1 < operators_.size() && operators_[op + 1] <= k) ++op;
    const Tensor* tensor = &tensors_[k];
    Recipe recipe;
    if (slot.parameter >= 0) {
      tensor = &parameters[slot.parameter];
      recipe = {parameters_[slot.parameter].swaps, Floats(tensors_[k])};
      if (tensor->NumElements() != NumElements(slot.shape)) {
        return InvalidArgument(
            absl::StrCat("the variable of operator '", slot.name,
                         "' does not have the shape that the program expects"));
      }
    }
    const float* data = nullptr;
    if (recipe.empty() && tensor->dtype() == tensorflow::DT_FLOAT) {
      data = tensor->flat<float>().data();
    } else {
      made->push_back(Floats(*tensor));
      recipe.Apply(&made->back());
      data = made->back().data();
    }
    weights[op].push_back({data, slot.shape});
  }
  return weights;
}

}  // namespace ios::tf
