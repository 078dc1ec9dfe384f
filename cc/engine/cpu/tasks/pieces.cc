#include "cc/engine/cpu/tasks/pieces.h"

#include <algorithm>
#include <utility>

namespace ios::cpu {
namespace {

TensorView Channels(const TensorView& view, int64_t size) {
  TensorView some = view;
  some.shape.back() = size;
  return some;
}

}  // namespace

std::vector<Range> RangesOf(const TaskSpec& spec) {
  // The position up to which an input of the operator is already divided into
  // ranges: the current tensor, and the number of its channels that are in
  // ranges.
  struct Position {
    size_t tensor;
    int64_t channel;
  };
  std::vector<Position> positions;
  size_t first = 0;
  for (const TaskSpec::Operand& operand : spec.operands) {
    positions.push_back({first, 0});
    first += operand.tensors;
  }
  std::vector<Range> ranges;
  for (int64_t channel = 0; channel < spec.output.channels();) {
    int64_t size = spec.output.channels() - channel;
    for (const Position& at : positions) {
      size = std::min(size, spec.inputs[at.tensor].channels() - at.channel);
    }
    Range range{channel, Channels(spec.output, size), {}};
    for (Position& at : positions) {
      const TensorView& view = spec.inputs[at.tensor];
      range.pieces.push_back({at.tensor, at.channel, Channels(view, size)});
      at.channel += size;
      if (at.channel == view.channels()) at = {at.tensor + 1, 0};
    }
    ranges.push_back(std::move(range));
    channel += size;
  }
  return ranges;
}

}  // namespace ios::cpu
