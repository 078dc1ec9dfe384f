// RegionWeights: the weights of an IosRegion: constants, and parameters, which
// are read from variables when the region runs.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_REGION_WEIGHTS_H_
#define IOS_TF_CC_TENSORFLOW_OPS_REGION_WEIGHTS_H_

#include <string>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/backend/arrays.h"
#include "cc/tensorflow/ops/program_json.h"
#include "tensorflow/core/framework/tensor.h"

namespace ios::tf {

class RegionWeights {
 public:
  // `tensors` is the op's attribute `weights`, with one tensor per weight. For
  // a constant, the tensor has the values. For a parameter, it has the factors
  // by which the parameter is multiplied, or is empty if there are none.
  static StatusOr<RegionWeights> Create(
      const RegionProgram& program, std::vector<tensorflow::Tensor> tensors);

  // Returns the weights for Program::Create. `parameters` has the values of the
  // variables in host memory. The result points into this object, into
  // `parameters`, and into `made`, which receives computed weights.
  StatusOr<Weights> Values(const std::vector<tensorflow::Tensor>& parameters,
                           std::vector<std::vector<float>>* made) const;

 private:
  // One weight of an operator. Slots are in the order of the operators.
  struct Slot {
    std::string name;  // of the operator
    Shape shape;
    int parameter = -1;  // index into parameters_, or -1 for a constant
  };

  std::vector<Slot> slots_;
  std::vector<size_t> operators_;  // index of each operator's first slot
  std::vector<WeightParameter> parameters_;
  std::vector<tensorflow::Tensor> tensors_;  // one per slot
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_REGION_WEIGHTS_H_
