// Operator merge (paper, section 3.1): convolutions that read the same tensor
// become one larger convolution, followed by slices.
#ifndef IOS_TF_CC_CORE_IR_MERGE_H_
#define IOS_TF_CC_CORE_IR_MERGE_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

// The convolution that replaces several operators (its parts), and the position
// of each part in its channels and in its kernel.
struct MergePlan {
  Operator merged;
  struct Part {
    int op;               // index in the block
    int64_t channel;      // first output channel
    int64_t row, column;  // of the part's kernel inside the merged kernel
  };
  std::vector<Part> parts;
};

// The plan for two or more operators, or an error that says why they may not
// merge. All must be Conv2D with groups = 1 and no residual, read the same
// tensor, and share strides, dilations and activation. Kernel sizes may differ
// only with stride 1 and SAME padding (or VALID for 1x1), where the results
// stay equal for every height and width.
StatusOr<MergePlan> PlanMerge(const Block& block, const std::vector<int>& ops);

// Groups of operators in which any two operators may merge, for the Python
// scheduler. Operators that cannot merge with any other are left out.
std::vector<std::vector<int>> MergeClasses(const Block& block);

// Stacks the parts' filters, [kh, kw, C, O_i], zero-padded to the merged
// kernel; filters[i] belongs to plan.parts[i]. `channels` is C. The result is
// [kh, kw, C, filters].
std::vector<float> StackFilters(const MergePlan& plan, const Block& block,
                                int64_t channels,
                                const std::vector<const float*>& filters);

// Concatenates the parts' biases, [O_i]. A null pointer stands for zeros.
std::vector<float> StackBiases(const MergePlan& plan, const Block& block,
                               const std::vector<const float*>& biases);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_MERGE_H_
