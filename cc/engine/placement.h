// Placement: which tensors of a block have memory of their own. Concat inputs
// are computed in their slice of the output, or the output is left in pieces,
// as some sums are; slices are views; 1x1 convolutions may be left to what
// reads them.
#ifndef IOS_TF_CC_ENGINE_PLACEMENT_H_
#define IOS_TF_CC_ENGINE_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/device_traits.h"

namespace ios {

// By operator, of its output.
struct Placement {
  // Concats and sums that are left in pieces, and 1x1 convolutions that are
  // left to what reads them: they have no memory, and nothing to do.
  std::vector<bool> in_pieces;
  std::vector<int> host;  // operator whose output contains this one's, or -1
  std::vector<int64_t> offset;  // in channels of the host's output
};

// `block` has no merge stages left (LowerMerges).
Placement PlaceTensors(const Block& block, const std::vector<Shape>& shapes,
                       const DeviceTraits& device);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PLACEMENT_H_
