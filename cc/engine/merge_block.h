// MergeBlock: a merge stage as a block of its own, to be measured.
#ifndef IOS_TF_CC_ENGINE_MERGE_BLOCK_H_
#define IOS_TF_CC_ENGINE_MERGE_BLOCK_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"
#include "cc/engine/device_traits.h"

namespace ios {

// The convolution that operators `ops` of a block are merged to, which is its
// first operator, their slices, in this order, and the concats that read them,
// which are not part of the stage but say where the slices lie. A slice is
// copied where a program copies it: for whoever finds it dense only.
StatusOr<Block> MergeBlock(const Block& block, const std::vector<Shape>& shapes,
                           const std::vector<int>& ops,
                           const DeviceTraits& traits);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_MERGE_BLOCK_H_
