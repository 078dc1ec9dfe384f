// Computes operators directly by their definitions, one element at a time.
#ifndef IOS_TF_TESTS_FUZZ_REFERENCE_H_
#define IOS_TF_TESTS_FUZZ_REFERENCE_H_

#include <vector>

#include "cc/core/ir/block.h"

namespace ios::fuzz {

struct Tensor {
  Shape shape;
  std::vector<float> data;
};

// Returns the outputs of all operators. weights[i] has the weights of operator
// i.
std::vector<Tensor> Evaluate(const Block& block,
                             const std::vector<Tensor>& inputs,
                             const std::vector<std::vector<Tensor>>& weights);

}  // namespace ios::fuzz

#endif  // IOS_TF_TESTS_FUZZ_REFERENCE_H_
