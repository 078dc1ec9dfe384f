// Placement: which tensors of a block have their own memory. Concat inputs are
// computed in their slice of the output. Slices are views. Concats, sums and
// 1x1 convolutions may be absorbed by their readers (see Absorbs).
#ifndef IOS_TF_CC_ENGINE_PLACEMENT_H_
#define IOS_TF_CC_ENGINE_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/backend/device_traits.h"

namespace ios {

// The placement of each operator's output.
struct Placement {
  // True for operators that their readers absorb. They have no memory and no
  // task.
  std::vector<bool> absorbed;
  std::vector<int> host;  // operator whose output contains this one's, or -1
  std::vector<int64_t> offset;  // in channels of the host's output
};

// Merge stages must have been lowered (LowerMerges).
Placement PlaceTensors(const Block& block, const std::vector<Shape>& shapes,
                       const DeviceTraits& device);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PLACEMENT_H_
