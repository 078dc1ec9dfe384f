#include "cc/core/transforms/channel_ranges.h"

#include <algorithm>

namespace ios {
namespace {

// An element of the unpadded dimension, and the factor by which the copy is
// multiplied.
struct ScaledElement {
  int64_t index;
  float factor;
};

// Returns, for each element of a padded dimension, the unpadded element that it
// copies. If the operator sums over this dimension (`summed`), an element that
// occurs twice gets the factor 1/2.
std::vector<ScaledElement> ElementsOf(const ChannelRanges& ranges, int64_t size,
                                      bool summed) {
  std::vector<ScaledElement> sources;
  if (ranges.empty()) {
    for (int64_t i = 0; i < size; ++i) sources.push_back({i, 1.0f});
    return sources;
  }
  int64_t first = 0;
  for (const ChannelRange& range : ranges) {
    for (int64_t k = 0; k < range.padded; ++k) {
      const int64_t at = k % range.channels;
      const bool is_twice = at < range.padded - range.channels;
      sources.push_back({first + at, summed && is_twice ? 0.5f : 1.0f});
    }
    first += range.channels;
  }
  return sources;
}

}  // namespace

int64_t PaddedSize(const ChannelRanges& ranges) {
  int64_t padded = 0;
  for (const ChannelRange& range : ranges) padded += range.padded;
  return padded;
}

bool IsPadded(const ChannelRanges& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [](const ChannelRange& r) {
    return r.padded != r.channels;
  });
}

void Append(const ChannelRange& range, ChannelRanges* ranges) {
  if (range.channels == 0) return;
  if (!ranges->empty() && !IsPadded({range, ranges->back()})) {
    ranges->back().channels += range.channels;
    ranges->back().padded += range.padded;
  } else {
    ranges->push_back(range);
  }
}

ChannelRanges Times(ChannelRanges ranges, int64_t multiplier) {
  for (ChannelRange& range : ranges) {
    range.channels *= multiplier;
    range.padded *= multiplier;
  }
  return ranges;
}

ChannelRanges OfWeight(const ChannelRanges& channels) {
  return IsPadded(channels) ? channels : ChannelRanges{};
}

Shape PaddedShape(const Shape& weight, const WeightPadding& padding) {
  Shape shape = weight;
  if (!padding.made.empty()) shape.back() = PaddedSize(padding.made);
  if (!padding.read.empty()) shape[shape.size() - 2] = PaddedSize(padding.read);
  return shape;
}

std::vector<float> PadWeight(const float* weight, const Shape& shape,
                             const WeightPadding& padding) {
  const int64_t made = shape.back();
  const int64_t read = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  const std::vector<ScaledElement> rows = ElementsOf(padding.read, read, true);
  const std::vector<ScaledElement> columns =
      ElementsOf(padding.made, made, false);
  std::vector<float> result;
  const int64_t matrices =
      NumElements(shape) / std::max<int64_t>(read * made, 1);
  result.reserve(matrices * rows.size() * columns.size());
  for (int64_t m = 0; m < matrices; ++m) {
    for (const ScaledElement& row : rows) {
      const float* const from = weight + (m * read + row.index) * made;
      for (const ScaledElement& column : columns) {
        result.push_back(from[column.index] * row.factor);
      }
    }
  }
  return result;
}

}  // namespace ios
