// Problem: a block as the Python scheduler sees it, with what only the C++ side
// can tell: shapes, work, which operators may merge.
#ifndef IOS_TF_CC_CORE_IR_PROBLEM_H_
#define IOS_TF_CC_CORE_IR_PROBLEM_H_

#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

// By operator, the algorithms of a CPU that are worth measuring beside the
// direct one.
std::vector<std::vector<Algorithm>> AlgorithmsOf(
    const Block& block, const std::vector<Shape>& shapes);

// {"version", "signature", "block", "shapes", "flops", "merge_classes",
// "operator_keys", "weight_shapes"}: shapes, work and weights' shapes of every
// operator, the classes of operators that may merge (merge.h), and a string per
// operator that is equal for equal work (type, attributes, input shapes).
StatusOr<std::string> ProblemJson(const Block& block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_PROBLEM_H_
