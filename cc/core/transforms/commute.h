// Swaps operators if the result stays the same and takes less work.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_COMMUTE_H_
#define IOS_TF_CC_CORE_TRANSFORMS_COMMUTE_H_

#include <utility>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios {

// Swaps an average pool with its only reader, if the reader is a 1x1
// convolution to fewer channels, as in the modules of Inception. The pool then
// averages fewer channels. The result is the same, because an average of sums
// is the sum of averages, and padded cells never count in an average. The
// activation of the convolution moves to the pool; otherwise pools have no
// activation. Returns the pairs {new index of the convolution, its old index}.
std::vector<std::pair<int, int>> PoolAfterConvolutions(
    const std::vector<Shape>& shapes, Block* block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_COMMUTE_H_
