// LowerMerges: replaces the merge stages of a schedule by convolutions and
// slices.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_LOWER_MERGES_H_
#define IOS_TF_CC_CORE_TRANSFORMS_LOWER_MERGES_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"

namespace ios {

// A block and schedule without merge stages. Every merge stage has become one
// Conv2D and slices, all in one group of a concurrent stage. The operators have
// the algorithms of the schedule. `origin[i]` lists the operators of the
// original block that operator i replaces. A merged convolution replaces
// several operators, and every other operator replaces one. The weights of a
// merged convolution are the concatenated weights of these operators (see
// StackFilters).
struct Lowered {
  Block block;
  Schedule schedule;
  std::vector<std::vector<int>> origin;
};
StatusOr<Lowered> LowerMerges(const Block& block, const Schedule& schedule);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_LOWER_MERGES_H_
