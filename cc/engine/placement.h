// Placement: decides which tensors of a block have their own memory. Inputs of
// a concat are written directly into its output. Slices are views of their
// input. Concats, sums and 1x1 convolutions may be absorbed by their readers
// (see Absorbs).
#ifndef IOS_TF_CC_ENGINE_PLACEMENT_H_
#define IOS_TF_CC_ENGINE_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/engine/backend/device_traits.h"

namespace ios {

// Where the output of each operator is placed. The vectors have an element for
// each operator.
struct Placement {
  // True for operators that their readers absorb. They have no memory and no
  // task.
  std::vector<bool> absorbed;
  // The operator whose output contains the operator's output, or -1.
  std::vector<int> host;
  std::vector<int64_t> offset;  // in channels of the host's output
};

// Computes the placement. Merge stages of the block's schedule must have been
// lowered (see LowerMerges).
Placement PlaceTensors(const Block& block, const std::vector<Shape>& shapes,
                       const DeviceTraits& device);

}  // namespace ios

#endif  // IOS_TF_CC_ENGINE_PLACEMENT_H_
