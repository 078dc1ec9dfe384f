// Commutation: operators that give the same in another order, for less.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_COMMUTE_H_
#define IOS_TF_CC_CORE_TRANSFORMS_COMMUTE_H_

#include <utility>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios {

// Average pools whose only reader is a 1x1 convolution to fewer channels, as in
// the modules of Inception. An average of sums is the sum of averages, and
// padded cells never count in one: convolved first, there are fewer channels to
// average. In the result both have changed places, and the pool has the
// convolution's activation, which no other block has. Returns the places:
// {where the convolution now is, where it was}.
std::vector<std::pair<int, int>> PoolAfterConvolutions(
    const std::vector<Shape>& shapes, Block* block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_COMMUTE_H_
