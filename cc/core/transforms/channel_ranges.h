// Ranges of channels with padding, and the padding of the weights of operators
// that read or write these channels.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_CHANNEL_RANGES_H_
#define IOS_TF_CC_CORE_TRANSFORMS_CHANNEL_RANGES_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "cc/core/ir/block.h"

namespace ios {

// Consecutive channels with padding at their end. The added channels repeat the
// first channels of the range, each at most once.
struct ChannelRange {
  int64_t channels = 0;
  int64_t padded = 0;  // including the added channels
};

inline bool operator==(const ChannelRange& a, const ChannelRange& b) {
  return a.channels == b.channels && a.padded == b.padded;
}
inline bool operator<(const ChannelRange& a, const ChannelRange& b) {
  return std::tie(a.channels, a.padded) < std::tie(b.channels, b.padded);
}

// All channels of a tensor, or of one dimension of a weight, as consecutive
// ranges. Empty if no channels are added.
using ChannelRanges = std::vector<ChannelRange>;

// The number of channels including the added ones.
int64_t PaddedSize(const ChannelRanges& ranges);

// Returns whether any channels are added.
bool IsPadded(const ChannelRanges& ranges);

// Adds a range at the end of `ranges`. Adjacent ranges without padding become
// one range, so that the same padding is always described by the same ranges.
void Append(const ChannelRange& range, ChannelRanges* ranges);

// Returns the ranges of an operator's output that has `multiplier` channels for
// each channel of an input with these ranges.
ChannelRanges Times(ChannelRanges ranges, int64_t multiplier);

// The padding of an operator's weight. `read` describes the channels that the
// operator reads (second to last dimension of the weight), and `made` describes
// the channels that the operator writes (last dimension).
struct WeightPadding {
  ChannelRanges read, made;
};

inline bool operator==(const WeightPadding& a, const WeightPadding& b) {
  return a.read == b.read && a.made == b.made;
}
inline bool operator<(const WeightPadding& a, const WeightPadding& b) {
  return std::tie(a.read, a.made) < std::tie(b.read, b.made);
}

// Returns the member of WeightPadding for the dimension of a weight that
// indexes the channels of a tensor. `channels` are the ranges of the tensor.
// The result is empty if no channels are added.
ChannelRanges OfWeight(const ChannelRanges& channels);

Shape PaddedShape(const Shape& weight, const WeightPadding& padding);

// Returns a padded copy of `weight`, which has the shape `shape`. If an input
// channel exists twice, both copies get half the weight. Halving is exact,
// unless the half is a subnormal number in the type to which it is rounded
// later.
std::vector<float> PadWeight(const float* weight, const Shape& shape,
                             const WeightPadding& padding);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_CHANNEL_RANGES_H_
