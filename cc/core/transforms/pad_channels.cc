#include "cc/core/transforms/pad_channels.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "cc/core/ir/readers.h"
#include "cc/core/ops/definition.h"

namespace ios {
namespace {

class ChannelPadder {
 public:
  ChannelPadder(const Block& block, const std::vector<Shape>& shapes,
                const ChannelPadding& padding)
      : block_(block),
        shapes_(shapes),
        padding_(padding),
        readers_(block),
        input_readers_(block.inputs.size()),
        free_(block.operators.size()),
        ranges_(block.operators.size()) {
    for (size_t i = 0; i < block.operators.size(); ++i) {
      for (int ref : block.operators[i].inputs) {
        if (ref < 0) input_readers_[-1 - ref].push_back(i);
      }
    }
  }

  PaddedBlock Pad();

 private:
  int64_t Channels(int ref) const {
    return ShapeOf(block_, shapes_, ref).back();
  }
  const ChannelRanges& Ranges(int ref) const {
    return ref < 0 ? input_ranges_[-1 - ref] : ranges_[ref];
  }
  const std::vector<int>& ReadersOf(int ref) const {
    return ref < 0 ? input_readers_[-1 - ref] : readers_.operators[ref];
  }
  bool IsBorder(int ref) const {
    return !padding_.borders && (ref < 0 || readers_.outside[ref]);
  }

  ChannelRange Range(int64_t channels) const;
  ChannelUse UseOf(int i) const;
  std::vector<int> SourcesOf(int i) const;
  bool ReadsAnyRanges(int i, int ref) const;
  bool MayPad(int ref) const;
  ChannelRanges RangesToMake(int i) const;
  ChannelRanges BetweenCuts(int i) const;

  bool PadSlice(int i, Operator* op);
  bool PadSum(int i, Operator* op);
  bool PadByChannel(int i, Operator* op);
  bool PadConcat(int i);
  void Emit(Operator op, bool padded);

  const Block& block_;
  const std::vector<Shape>& shapes_;
  const ChannelPadding& padding_;
  const Readers readers_;
  std::vector<std::vector<int>> input_readers_;
  // For each operator, whether channels may be added anywhere in its output,
  // because all readers support that.
  std::vector<bool> free_;
  std::vector<ChannelRanges> input_ranges_, ranges_;  // of the padded tensors
  PaddedBlock result_;
};

ChannelRange ChannelPadder::Range(int64_t channels) const {
  const int64_t multiple = padding_.multiple;
  const int64_t padded = (channels + multiple - 1) / multiple * multiple;
  return {channels, padded <= 2 * channels ? padded : channels};
}

ChannelUse ChannelPadder::UseOf(int i) const {
  const Operator& op = block_.operators[i];
  return DefinitionOf(op.type).channels(op, Channels(op.inputs[0]));
}

// Returns the inputs of a per-channel operator that have the same channels as
// its output. Inputs that give only a size, or that broadcast to all channels,
// are left out.
std::vector<int> ChannelPadder::SourcesOf(int i) const {
  const Operator& op = block_.operators[i];
  std::vector<int> sources = op.inputs;
  if (op.size_from_last_input) sources.pop_back();
  if (op.type == OperatorType::kBinary) {
    const auto broadcasts = [&](int ref) {
      return Channels(ref) != shapes_[i].back();
    };
    sources.erase(std::remove_if(sources.begin(), sources.end(), broadcasts),
                  sources.end());
  }
  return sources;
}

// Returns whether operator `i` can read `ref` if channels are added anywhere in
// `ref`, not only at its end.
bool ChannelPadder::ReadsAnyRanges(int i, int ref) const {
  const Operator& op = block_.operators[i];
  if (op.type == OperatorType::kConcat) return free_[i];
  const ChannelUse use = UseOf(i);
  const bool sums = use == ChannelUse::kSum;
  if (!sums && (use != ChannelUse::kEach || !free_[i])) return false;
  // A residual must have the same ranges as the output, and all inputs that
  // SourcesOf() returns must have the same ranges. Neither is certain if
  // channels may be added anywhere.
  if (sums) return !op.residual || op.inputs.back() != ref;
  return SourcesOf(i).size() == 1;
}

// Returns whether channels may be added at the end of `ref`. An unpadded concat
// must not read `ref`, because it would have to copy a slice of `ref`.
bool ChannelPadder::MayPad(int ref) const {
  const std::vector<int>& readers = ReadersOf(ref);
  return !IsBorder(ref) &&
         std::all_of(readers.begin(), readers.end(), [&](int reader) {
           return block_.operators[reader].type != OperatorType::kConcat ||
                  free_[reader];
         });
}

// Returns the ranges for the output of operator `i`, which sums over its input
// channels.
ChannelRanges ChannelPadder::RangesToMake(int i) const {
  const Operator& op = block_.operators[i];
  const int64_t channels = shapes_[i].back();
  if (!MayPad(i)) return {{channels, channels}};
  if (op.residual) {
    const ChannelRanges& residual = Ranges(op.inputs.back());
    if (residual.size() == 1) return residual;
    return {{channels, channels}};
  }
  const ChannelRanges cut = BetweenCuts(i);
  return cut.empty() ? ChannelRanges{Range(channels)} : cut;
}

// Returns ranges of operator `i`'s output such that each slice of the output is
// exactly one range. Empty if the output has no slices, if its slices overlap,
// or if a reader of the whole output does not support these ranges.
ChannelRanges ChannelPadder::BetweenCuts(int i) const {
  std::set<std::pair<int64_t, int64_t>> slices;
  for (int reader : readers_.operators[i]) {
    const Operator& op = block_.operators[reader];
    if (op.type == OperatorType::kSlice) {
      slices.emplace(op.offset, op.offset + op.size);
    } else if (!ReadsAnyRanges(reader, i)) {
      return {};
    }
  }
  if (slices.empty()) return {};
  ChannelRanges ranges;
  int64_t end = 0;
  for (const auto& [first, last] : slices) {
    if (first < end) return {};
    Append(Range(first - end), &ranges);
    Append(Range(last - first), &ranges);
    end = last;
  }
  Append(Range(shapes_[i].back() - end), &ranges);
  return ranges;
}

// Adjusts a slice to its padded input. Returns true if the slice takes a whole
// range with its added channels; its output is then padded. Otherwise, the
// slice takes only original channels.
bool ChannelPadder::PadSlice(int i, Operator* op) {
  const ChannelRanges& source = Ranges(op->inputs[0]);
  // The end of the range, in original channels and in padded channels.
  int64_t end = 0, padded_end = 0;
  for (const ChannelRange& range : source) {
    if (op->offset < end + range.channels) {
      const bool whole = op->offset == end && op->size == range.channels;
      op->offset += padded_end - end;
      if (!whole || range.padded == range.channels || !MayPad(i)) return false;
      op->size = range.padded;
      ranges_[i] = {range};
      return true;
    }
    end += range.channels;
    padded_end += range.padded;
  }
  return false;
}

bool ChannelPadder::PadSum(int i, Operator* op) {
  ranges_[i] = RangesToMake(i);
  op->filters = PaddedSize(ranges_[i]);
  const ChannelRanges read = OfWeight(Ranges(op->inputs[0]));
  const ChannelRanges made = OfWeight(ranges_[i]);
  std::vector<WeightPadding>& weights = result_.weights.back();
  if (op->type == OperatorType::kSepConv) {
    const ChannelRanges middle = Times(read, op->multiplier);
    weights = {{{}, middle}, {middle, made}};
  } else {
    weights = {{read, made}};
  }
  if (op->bias) weights.push_back({{}, made});
  // The residual must have the same ranges as the output. Other inputs may have
  // any ranges.
  return !op->residual || Ranges(op->inputs.back()) == ranges_[i];
}

// Pads an operator that computes each channel independently. This is possible
// if all inputs that SourcesOf() returns have the same channel ranges. The
// operator's output then has these ranges, too. Returns whether the operator
// was padded.
bool ChannelPadder::PadByChannel(int i, Operator* op) {
  const std::vector<int> sources = SourcesOf(i);
  if (sources.empty()) return false;
  // A depthwise convolution has `multiplier` output channels per input channel.
  // If it has a residual, the residual must have the ranges of the output.
  const bool depthwise = op->type == OperatorType::kConv2D;
  const int64_t multiplier = depthwise ? op->filters / op->groups : 1;
  const ChannelRanges ranges = Times(Ranges(sources[0]), multiplier);
  if (!IsPadded(ranges) || !MayPad(i)) return false;
  for (size_t k = 1; k < sources.size(); ++k) {
    if (!(Ranges(sources[k]) == ranges)) return false;
  }
  std::vector<WeightPadding>& weights = result_.weights.back();
  if (depthwise) {
    op->groups = PaddedSize(Ranges(sources[0]));
    op->filters = PaddedSize(ranges);
    weights.assign(op->bias ? 2 : 1, {{}, ranges});
  } else if (op->type == OperatorType::kScale) {
    weights.assign(2, {{}, ranges});
  } else if (!op->operand.empty()) {
    const bool has_all = op->operand.back() == shapes_[i].back();
    weights = {{{}, has_all ? ranges : ChannelRanges{}}};
    if (has_all) op->operand.back() = PaddedSize(ranges);
  }
  ranges_[i] = ranges;
  return true;
}

bool ChannelPadder::PadConcat(int i) {
  if (!free_[i]) return false;
  ranges_[i].clear();
  for (int ref : block_.operators[i].inputs) {
    for (const ChannelRange& range : Ranges(ref)) Append(range, &ranges_[i]);
  }
  return true;
}

// Adds an operator to the result. If the operator cannot read an input with
// padding, first adds a slice of this input without the padding.
void ChannelPadder::Emit(Operator op, bool padded) {
  Block& block = result_.block;
  const auto now = [&](int ref) {
    return ref < 0 ? ref : result_.operators[ref].back();
  };
  std::vector<int> indices;
  std::map<int, int> slices;  // keyed by the sliced tensor
  const auto slice_of = [&](int ref) {
    const auto [known, is_new] = slices.try_emplace(ref);
    if (is_new) {
      Operator slice;
      slice.name = op.name;
      slice.type = OperatorType::kSlice;
      slice.inputs = {now(ref)};
      slice.size = Channels(ref);
      known->second = block.operators.size();
      indices.push_back(known->second);
      block.operators.push_back(std::move(slice));
      // The slice has no weights. Its entry in `weights` goes before the
      // operator's, which exists already.
      result_.weights.insert(result_.weights.end() - 1,
                             std::vector<WeightPadding>());
    }
    return known->second;
  };
  const bool sums = UseOf(result_.operators.size()) == ChannelUse::kSum;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const int ref = op.inputs[k];
    const bool is_residual = op.residual && k + 1 == op.inputs.size();
    const bool reads_ranges =
        padded || op.type == OperatorType::kSlice || (sums && !is_residual) ||
        (op.size_from_last_input && k + 1 == op.inputs.size());
    op.inputs[k] =
        reads_ranges || !IsPadded(Ranges(ref)) ? now(ref) : slice_of(ref);
  }
  indices.push_back(block.operators.size());
  block.operators.push_back(std::move(op));
  result_.operators.push_back(std::move(indices));
}

PaddedBlock ChannelPadder::Pad() {
  const int n = block_.operators.size();
  for (int i = n - 1; i >= 0; --i) {
    const std::vector<int>& readers = readers_.operators[i];
    free_[i] = !IsBorder(i) &&
               std::all_of(readers.begin(), readers.end(), [&](int reader) {
                 return ReadsAnyRanges(reader, i);
               });
  }
  result_.block = block_;
  result_.block.operators.clear();
  for (size_t k = 0; k < block_.inputs.size(); ++k) {
    const int64_t channels = block_.inputs[k].back();
    const bool pad = MayPad(-1 - static_cast<int>(k));
    input_ranges_.push_back(
        {pad ? Range(channels) : ChannelRange{channels, channels}});
    result_.block.inputs[k].back() = PaddedSize(input_ranges_[k]);
  }
  for (int i = 0; i < n; ++i) {
    Operator op = block_.operators[i];
    ranges_[i] = {{shapes_[i].back(), shapes_[i].back()}};
    // Adds an entry without padding for each weight of the operator.
    result_.weights.emplace_back(
        WeightShapes(op, ShapeOf(block_, shapes_, op.inputs[0])).size());
    bool padded = false;
    if (op.type == OperatorType::kSlice) {
      padded = PadSlice(i, &op);
    } else if (UseOf(i) == ChannelUse::kSum) {
      padded = PadSum(i, &op);
    } else if (op.type == OperatorType::kConcat) {
      padded = PadConcat(i);
    } else if (UseOf(i) == ChannelUse::kEach) {
      padded = PadByChannel(i, &op);
    }
    Emit(std::move(op), padded);
  }
  for (int& out : result_.block.outputs) out = result_.operators[out].back();
  return std::move(result_);
}

// Returns the result for a block that needs no padding.
PaddedBlock Unchanged(const Block& block, const std::vector<Shape>& shapes) {
  PaddedBlock same;
  same.block = block;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    const Operator& op = block.operators[i];
    same.operators.push_back({static_cast<int>(i)});
    same.weights.emplace_back(
        WeightShapes(op, ShapeOf(block, shapes, op.inputs[0])).size());
  }
  return same;
}

}  // namespace

std::vector<Stage> PaddedBlock::Translate(
    const std::vector<Stage>& stages) const {
  std::vector<Stage> translated = stages;
  for (Stage& stage : translated) {
    for (std::vector<int>& group : stage.groups) {
      std::vector<int> members;
      for (int i : group) {
        members.insert(members.end(), operators[i].begin(), operators[i].end());
      }
      group = std::move(members);
    }
  }
  return translated;
}

PaddedBlock PadChannels(const Block& block, const std::vector<Shape>& shapes,
                        const ChannelPadding& padding) {
  if (padding.multiple <= 1) return Unchanged(block, shapes);
  PaddedBlock padded = ChannelPadder(block, shapes, padding).Pad();
  // If the padded block exceeds the limits for blocks, the block is not padded.
  return InferShapes(padded.block).ok() ? padded : Unchanged(block, shapes);
}

StatusOr<DeviceSchedule> LowerAndPad(const Block& block,
                                     const Schedule& schedule,
                                     const ChannelPadding& padding) {
  DeviceSchedule result;
  IOS_ASSIGN_OR_RETURN(result.lowered, LowerMerges(block, schedule));
  const Lowered& lowered = result.lowered;
  IOS_ASSIGN_OR_RETURN(const std::vector<Shape> shapes,
                       InferShapes(lowered.block));
  result.padded = PadChannels(lowered.block, shapes, padding);
  result.schedule.stages = result.padded.Translate(lowered.schedule.stages);
  return result;
}

}  // namespace ios
