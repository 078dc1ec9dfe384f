// Placement: which tensors of a block have their own memory. Concat inputs are
// computed in their slice of the output, or the output is left in pieces. Some
// sums are left in pieces, too. Slices are views. A 1x1 convolution may be left
// to its reader, which computes both.
#ifndef IOS_TF_CC_ENGINE_PLACEMENT_H_
#define IOS_TF_CC_ENGINE_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/device_traits.h"

namespace ios {

// The placement of each operator's output.
struct Placement {
  // True for concats and sums that are left in pieces, and for 1x1 convolutions
  // that are left to their readers. They have no memory and no work.
  std::vector<bool> in_pieces;
  std::vector<int> host;  // operator whose output contains this one's, or -1
  std::vector<int64_t> offset;  // in channels of the host's output
};

// Merge stages must have been lowered (LowerMerges).
Placement PlaceTensors(const Block& block, const std::vector<Shape>& shapes,
                       const DeviceTraits& device);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PLACEMENT_H_
