// Problem: a block as the Python scheduler sees it, with information that only
// the C++ side computes: shapes, work, and the operators that may merge.
#ifndef IOS_TF_CC_CORE_IR_PROBLEM_H_
#define IOS_TF_CC_CORE_IR_PROBLEM_H_

#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

// Returns, for each operator, the CPU algorithms that are worth measuring
// besides kDirect.
std::vector<std::vector<Algorithm>> AlgorithmsOf(
    const Block& block, const std::vector<Shape>& shapes);

// Returns a JSON object with these members: "version", "signature", "block";
//   "shapes", "flops", "weight_shapes": one entry per operator;
//   "merge_classes": groups of operators that may merge (see MergeClasses);
//   "algorithms": see AlgorithmsOf;
//   "operator_keys": a string per operator, which is equal for equal work
//     (type, attributes, input shapes, and data types).
StatusOr<std::string> ProblemJson(const Block& block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_PROBLEM_H_
