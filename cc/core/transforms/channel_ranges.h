// Channels with others added to them, and the weights that belong to such.
#ifndef IOS_TF_CC_CORE_TRANSFORMS_CHANNEL_RANGES_H_
#define IOS_TF_CC_CORE_TRANSFORMS_CHANNEL_RANGES_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "cc/core/ir/block.h"

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

// How many channels there are with those that are added.
int64_t PaddedSize(const ChannelRanges& ranges);

// Whether any channels are added.
bool IsPadded(const ChannelRanges& ranges);

// Adds a range at the end. Ranges that are not padded are one where they meet:
// equal channels have equal ranges.
void Append(const ChannelRange& range, ChannelRanges* ranges);

// The ranges of an output that has `multiplier` channels for each.
ChannelRanges Times(ChannelRanges ranges, int64_t multiplier);

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

// The ranges of a dimension of a weight that meets a tensor of `channels`.
ChannelRanges OfWeight(const ChannelRanges& channels);

Shape PaddedShape(const Shape& weight, const WeightPadding& padding);

// The elements of a weight of `shape`, padded. Halves are exact, unless they
// are smaller than normal numbers of the type they are rounded to.
std::vector<float> PadWeight(const float* weight, const Shape& shape,
                             const WeightPadding& padding);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_TRANSFORMS_CHANNEL_RANGES_H_
