// Padding of channels: tensors inside a block get numbers of channels that a
// device computes with at once, and weights to match.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_
#define IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/core/transforms/merge.h"

namespace ios {

// Channels that lie one after another. Those that are added repeat the first
// ones; there are no more of them than of these.
struct ChannelRange {
  int64_t channels = 0;
  int64_t padded = 0;  // with those that are added
};

inline bool operator==(const ChannelRange& a, const ChannelRange& b) {
  return a.channels == b.channels && a.padded == b.padded;
}
inline bool operator<(const ChannelRange& a, const ChannelRange& b) {
  return std::tie(a.channels, a.padded) < std::tie(b.channels, b.padded);
}

// All channels of a tensor, or of one dimension of a weight; empty for a
// dimension that stays as it is.
using ChannelRanges = std::vector<ChannelRange>;

// How a weight becomes that of a padded operator: its last dimension but one,
// the channels that are read, and its last, those that are made.
struct WeightPadding {
  ChannelRanges read, made;
};

inline bool operator==(const WeightPadding& a, const WeightPadding& b) {
  return a.read == b.read && a.made == b.made;
}
inline bool operator<(const WeightPadding& a, const WeightPadding& b) {
  return std::tie(a.read, a.made) < std::tie(b.read, b.made);
}

struct PaddedBlock {
  Block block;
  // What each operator became: slices that it reads, if any, and itself.
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

Shape PaddedShape(const Shape& weight, const WeightPadding& padding);

// The elements of a weight of `shape`, padded. Halves are exact, unless they
// are smaller than normal numbers of the type they are rounded to.
std::vector<float> PadWeight(const float* weight, const Shape& shape,
                             const WeightPadding& padding);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_
