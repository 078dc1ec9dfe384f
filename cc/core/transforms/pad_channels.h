// Channel padding: rounds the numbers of channels inside a block up to a
// multiple that suits the device, and pads the weights to match.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_
#define IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_

#include <cstdint>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/ir/schedule.h"
#include "cc/core/status.h"
#include "cc/core/transforms/channel_ranges.h"
#include "cc/core/transforms/lower_merges.h"

namespace ios {

struct PaddedBlock {
  Block block;
  // operators[i] lists the operators of `block` that do the work of operator i
  // of the original block. The last operator in the list is the padded
  // operator. If its inputs have added channels that it cannot read, slices
  // that remove these channels come before it.
  std::vector<std::vector<int>> operators;
  // weights[i] has the padding of the weights of operator i of `block`, in the
  // order of WeightShapes().
  std::vector<std::vector<WeightPadding>> weights;

  // Translates stages of the original block to operators of `block`.
  std::vector<Stage> Translate(const std::vector<Stage>& stages) const;
};

struct ChannelPadding {
  int64_t multiple = 1;  // of the padded numbers of channels; 1: no padding
  // Whether the block's inputs and outputs are padded, too. This is true when a
  // part of a larger block is measured, because these tensors are padded inside
  // the larger block.
  bool borders = false;
};

// Pads the outputs of convolutions and matrix products. An added channel is a
// duplicate of another channel. Per-channel operators (pools, sums,
// activations, depthwise convolutions) compute the same from the duplicate as
// from its original. Operators that sum over channels give each of the two
// copies half the weight. An infinity thus has the same effect as before. If
// the added channels had weights of zero, an infinity would become NaN.
//
// An operator that needs the original channels (a softmax, a channel shuffle)
// reads a slice, which is later planned as a view of the padded tensor. Each
// part of a concat is padded separately if all readers of the concat support
// that. In a merged convolution, the channels of each slice are padded
// separately. Padding never more than doubles a range.
PaddedBlock PadChannels(const Block& block, const std::vector<Shape>& shapes,
                        const ChannelPadding& padding);

// A block and its schedule as a device runs them: merges are lowered, and then
// channels are padded.
struct DeviceSchedule {
  Lowered lowered;
  PaddedBlock padded;  // made from lowered.block
  Schedule schedule;   // of padded.block
};
StatusOr<DeviceSchedule> LowerAndPad(const Block& block,
                                     const Schedule& schedule,
                                     const ChannelPadding& padding);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_PAD_CHANNELS_H_
