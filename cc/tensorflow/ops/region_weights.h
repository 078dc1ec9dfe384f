// RegionWeights: the weights of an IosRegion, some of which are read when it
// runs.
#ifndef IOS_TF_CC_TENSORFLOW_OPS_REGION_WEIGHTS_H_
#define IOS_TF_CC_TENSORFLOW_OPS_REGION_WEIGHTS_H_

#include <string>
#include <vector>

#include "cc/core/status.h"
#include "cc/engine/arrays.h"
#include "cc/tensorflow/ops/program_json.h"
#include "tensorflow/core/framework/tensor.h"

namespace ios::tf {

class RegionWeights {
 public:
  // `tensors`: the op's attribute `weights`: of each weight its values or, of a
  // parameter, the factors that it is multiplied by, none if it is not.
  static StatusOr<RegionWeights> Create(
      const RegionProgram& program, std::vector<tensorflow::Tensor> tensors);

  // The weights for Program::Create. They point into this object, into
  // `parameters`, the values of the variables on the host, and into `made`.
  StatusOr<Weights> Values(const std::vector<tensorflow::Tensor>& parameters,
                           std::vector<std::vector<float>>* made) const;

 private:
  struct Slot {
    std::string name;  // of the operator
    Shape shape;
    int parameter = -1;
  };

  std::vector<Slot> slots_;
  std::vector<size_t> operators_;  // of each, its first slot
  std::vector<Parameter> parameters_;
  std::vector<tensorflow::Tensor> tensors_;  // by slot
};

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_OPS_REGION_WEIGHTS_H_
