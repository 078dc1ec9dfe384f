// Operator merge (paper, section 3.1): convolutions that read the same tensor
// become one larger convolution, followed by slices.
#ifndef IOS_TF_CC_CORE_IR_MERGE_H_
#define IOS_TF_CC_CORE_IR_MERGE_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

// Describes how one convolution replaces several convolutions, the parts. For
// each part, the plan says where its output channels begin, and where its
// kernel lies inside the larger kernel.
struct MergePlan {
  Operator merged;
  struct Part {
    int op;               // index in the block
    int64_t channel;      // first output channel
    int64_t row, column;  // of the part's kernel inside the merged kernel
  };
  std::vector<Part> parts;
};

// Returns the plan for merging two or more operators, or an error that says why
// they may not merge. All operators must be Conv2D with groups = 1 and no
// residual, read the same tensor, and share strides, dilations and activation.
// Kernel sizes may differ only with stride 1 and SAME padding (a 1x1 kernel may
// also have VALID), because merging then changes no result, whatever the height
// and width.
StatusOr<MergePlan> PlanMerge(const Block& block, const std::vector<int>& ops);

// Returns groups of operators for the Python scheduler. Any two operators of a
// group may merge. Operators that cannot merge with any other are left out.
std::vector<std::vector<int>> MergeClasses(const Block& block);

// Concatenates the filters of the parts along their output channels, after
// padding each kernel with zeros to the merged kernel's size. filters[i]
// belongs to plan.parts[i] and has the shape [kh, kw, C, O_i]; `channels` is C.
// The result has the shape [kh, kw, C, sum of all O_i].
std::vector<float> StackFilters(const MergePlan& plan, const Block& block,
                                int64_t channels,
                                const std::vector<const float*>& filters);

// Concatenates the biases of the parts, each of shape [O_i]. A part without a
// bias has a null pointer, which counts as zeros.
std::vector<float> StackBiases(const MergePlan& plan, const Block& block,
                               const std::vector<const float*>& biases);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_MERGE_H_
