// MergeBlock: a merge stage as a separate block, for measurement.
#ifndef IOS_TF_CC_ENGINE_MERGE_BLOCK_H_
#define IOS_TF_CC_ENGINE_MERGE_BLOCK_H_

#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"
#include "cc/engine/backend/device_traits.h"

namespace ios {

// Returns a block with the merged convolution of `ops` as its first operator,
// then the slices in the order of `ops`, then the concats that read the slices.
// The concats are not part of the stage, but they determine where the slices
// lie. As in a program, a slice is copied only for a reader that needs it
// dense.
StatusOr<Block> MergeBlock(const Block& block, const std::vector<Shape>& shapes,
                           const std::vector<int>& ops,
                           const DeviceTraits& traits);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_MERGE_BLOCK_H_
