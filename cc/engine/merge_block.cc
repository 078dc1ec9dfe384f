#include "cc/engine/merge_block.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cc/core/ir/merge.h"

namespace ios {
namespace {

bool Reads(const Operator& op, int ref) {
  return std::find(op.inputs.begin(), op.inputs.end(), ref) != op.inputs.end();
}

bool IsOutput(const Block& block, int op) {
  return std::find(block.outputs.begin(), block.outputs.end(), op) !=
         block.outputs.end();
}

// Returns whether a slice that replaces operator `i` must be dense. This is so
// if operator `i` is an output of the block, or if one of its readers needs a
// dense tensor. A concat that may be absorbed counts as such a reader.
bool IsReadDense(const Block& block, const std::vector<Shape>& shapes, int i,
                 const DeviceTraits& traits) {
  if (IsOutput(block, i)) return true;
  for (size_t r = 0; r < block.operators.size(); ++r) {
    const Operator& reader = block.operators[r];
    if (!Reads(reader, i)) continue;
    if (reader.type != OperatorType::kConcat) {
      if (!traits.ReadsPitched(reader, block.dtype)) return true;
      continue;
    }
    bool absorbed = !IsOutput(block, r);
    for (size_t k = 0; k < block.operators.size() && absorbed; ++k) {
      absorbed =
          !Reads(block.operators[k], r) ||
          traits.absorbs(reader, block.operators[k], shapes[r], shapes[k]);
    }
    if (absorbed) return true;
  }
  return false;
}

}  // namespace

StatusOr<Block> MergeBlock(const Block& block, const std::vector<Shape>& shapes,
                           const std::vector<int>& ops,
                           const DeviceTraits& traits) {
  IOS_ASSIGN_OR_RETURN(MergePlan plan, PlanMerge(block, ops));
  Block stage;
  stage.dtype = block.dtype;
  const auto add_input = [&](int ref) {
    stage.inputs.push_back(ShapeOf(block, shapes, ref));
    stage.input_dtypes.push_back(DtypeOf(block, ref));
  };
  // Adds the last operator as an output that replaces operator `op`.
  const auto add_output = [&](int op) {
    stage.outputs.push_back(stage.operators.size() - 1);
    stage.output_dtypes.push_back(DtypeOf(block, op));
  };
  add_input(plan.merged.inputs[0]);
  plan.merged.inputs = {-1};
  stage.operators.push_back(plan.merged);
  std::map<int, int> slices;  // keyed by the operator that the slice replaces
  for (const MergePlan::Part& part : plan.parts) {
    Operator slice;
    slice.type = OperatorType::kSlice;
    slice.inputs = {0};
    slice.offset = part.channel;
    slice.size = block.operators[part.op].filters;
    slices[part.op] = stage.operators.size();
    stage.operators.push_back(slice);
    if (IsReadDense(block, shapes, part.op, traits)) add_output(part.op);
  }
  for (size_t r = 0; r < block.operators.size(); ++r) {
    const Operator& reader = block.operators[r];
    if (reader.type != OperatorType::kConcat ||
        std::none_of(reader.inputs.begin(), reader.inputs.end(),
                     [&](int ref) { return slices.count(ref) > 0; })) {
      continue;
    }
    Operator concat = reader;
    for (int& ref : concat.inputs) {
      if (const auto known = slices.find(ref); known != slices.end()) {
        ref = known->second;
        continue;
      }
      add_input(ref);
      ref = -static_cast<int>(stage.inputs.size());
    }
    stage.operators.push_back(std::move(concat));
    add_output(static_cast<int>(r));
  }
  // If all slices are views, the block has no output yet, but a block needs
  // one.
  if (stage.outputs.empty()) {
    stage.outputs = {0};
    stage.output_dtypes = {block.dtype};
  }
  SimplifyDtypes(&stage);
  return stage;
}

}  // namespace ios
