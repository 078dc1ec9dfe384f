// Padding of channels: tensors inside a block get numbers of channels that a
// device computes with at once, and weights to match.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_
#define IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/core/transforms/channel_ranges.h"
#include "cc/core/transforms/merge.h"

namespace ios {

struct PaddedBlock {
  Block block;
  // The operators of `block` that each one became: slices that it reads, if
  // any, and itself.
  std::vector<std::vector<int>> operators;
  // By operator of `block`, in the order of WeightShapes().
  std::vector<std::vector<WeightPadding>> weights;

  // The same stages, of operators of `block`.
  std::vector<Stage> Translate(const std::vector<Stage>& stages) const;
};

struct ChannelPadding {
  int64_t multiple = 1;  // that numbers of channels become; 1 changes nothing
  // Whether inputs and outputs of the block are padded, too: where a part is
  // measured of a block that has it inside.
  bool borders = false;
};

// Convolutions and matrix products make more channels than they have, and read
// such tensors. A channel that is added repeats another one: what is done to
// each channel by itself - pools, sums, activations, depthwise convolutions -
// keeps it a copy, whatever it makes of zero, and who sums over channels
// weights the two by half each. So no value appears that was not there, and
// an infinity, of which a weight of zero would make NaN, does what it did.
//
// Where a tensor is read by what needs its very channels (a softmax, a channel
// shuffle), that reads a slice, which memory planning makes a view. Concats are
// padded part by part, if all who read them can do with that; the channels of
// a merged convolution between the cuts of its slices. A range that would be
// more than twice as large is not padded.
PaddedBlock PadChannels(const Block& block, const std::vector<Shape>& shapes,
                        const ChannelPadding& padding);

// A schedule of a block as a device runs it: merges are made, then channels are
// padded.
struct DeviceSchedule {
  Lowered lowered;
  PaddedBlock padded;  // lowered.block
  Schedule schedule;   // of padded.block
};
StatusOr<DeviceSchedule> LowerAndPad(const Block& block,
                                     const Schedule& schedule,
                                     const ChannelPadding& padding);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_
