// Operator merge (paper, section 3.1): convolutions that read the same tensor
// become one larger convolution, followed by slices.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_MERGE_H_
#define IOS_TF_CC_CORE_TRANSFORMS_MERGE_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"

namespace ios {

// How operators become one convolution: the operator itself and where each
// part lies in its channels and in its kernel.
struct MergePlan {
  Operator merged;
  struct Part {
    int op;               // index in the block
    int64_t channel;      // first output channel
    int64_t row, column;  // of the part's kernel inside the merged kernel
  };
  std::vector<Part> parts;
};

// The plan for two or more operators, or why they may not merge: all must be
// Conv2D with groups = 1 and no residual, read the same tensor, and share
// strides, dilations and activation. Kernel sizes may differ where the results
// stay equal for every height and width: stride 1 and SAME padding.
StatusOr<MergePlan> PlanMerge(const Block& block, const std::vector<int>& ops);

// The classes of operators any two of which may merge; operators that may merge
// with no other are left out. This is what the Python scheduler is told.
std::vector<std::vector<int>> MergeClasses(const Block& block);

// Stacks the parts' filters, [kh, kw, C, O_i], zero-padded to the merged
// kernel; filters[i] belongs to plan.parts[i]. `channels` is the input's. The
// result is [kh, kw, C, filters].
std::vector<float> StackFilters(const MergePlan& plan, const Block& block,
                                int64_t channels,
                                const std::vector<const float*>& filters);

// The parts' biases, [O_i], one after the other; a null one is zeros.
std::vector<float> StackBiases(const MergePlan& plan, const Block& block,
                               const std::vector<const float*>& biases);

// The block and schedule with their merges made, and the schedule's algorithms
// in the operators: every merge stage becomes one
// Conv2D and slices, all in one group of a concurrent stage. Operator i of the
// result comes from `origin[i]` (operators of `block`; several for a merged
// convolution, one for anything else). Weights of a merged convolution are
// those of its origins, stacked.
struct Lowered {
  Block block;
  Schedule schedule;
  std::vector<std::vector<int>> origin;
};
StatusOr<Lowered> LowerMerges(const Block& block, const Schedule& schedule);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_MERGE_H_
