#include "cc/core/transforms/lower_merges.h"

#include <utility>

#include "cc/core/ir/merge.h"

namespace ios {

StatusOr<Lowered> LowerMerges(const Block& original, const Schedule& schedule) {
  IOS_RETURN_IF_ERROR(Validate(schedule, original));
  const Block block = WithAlgorithms(original, schedule);
  Lowered lowered;
  lowered.block.name = block.name;
  lowered.block.dtype = block.dtype;
  lowered.block.inputs = block.inputs;
  lowered.block.input_dtypes = block.input_dtypes;
  lowered.block.output_dtypes = block.output_dtypes;
  // The stages are in a topological order. Operators are appended in the order
  // of the stages, so they are in a topological order, too.
  std::vector<int> new_index(block.operators.size(), -1);
  const auto translate = [&](Operator* op) {
    for (int& ref : op->inputs) {
      if (ref >= 0) ref = new_index[ref];
    }
  };
  const auto append = [&](Operator op, std::vector<int> origin) {
    lowered.block.operators.push_back(std::move(op));
    lowered.origin.push_back(std::move(origin));
    return static_cast<int>(lowered.block.operators.size()) - 1;
  };
  for (const Stage& stage : schedule.stages) {
    Stage out;
    if (stage.strategy == Strategy::kMerge) {
      IOS_ASSIGN_OR_RETURN(MergePlan plan, PlanMerge(block, stage.groups[0]));
      translate(&plan.merged);
      const int merged = append(plan.merged, stage.groups[0]);
      std::vector<int> group = {merged};
      for (const MergePlan::Part& part : plan.parts) {
        Operator slice;
        slice.name = block.operators[part.op].name;
        slice.type = OperatorType::kSlice;
        slice.inputs = {merged};
        slice.offset = part.channel;
        slice.size = block.operators[part.op].filters;
        new_index[part.op] = append(std::move(slice), {part.op});
        group.push_back(new_index[part.op]);
      }
      out.groups.push_back(std::move(group));
    } else {
      out.strategy = stage.strategy;
      out.micro_batches = stage.micro_batches;
      for (const std::vector<int>& group : stage.groups) {
        std::vector<int> members;
        for (int i : group) {
          Operator op = block.operators[i];
          translate(&op);
          new_index[i] = append(std::move(op), {i});
          members.push_back(new_index[i]);
        }
        out.groups.push_back(std::move(members));
      }
    }
    lowered.schedule.stages.push_back(std::move(out));
  }
  for (int out : block.outputs) lowered.block.outputs.push_back(new_index[out]);
  // A merged convolution may exceed the limits even if its parts do not.
  IOS_RETURN_IF_ERROR(InferShapes(lowered.block).status());
  return lowered;
}

}  // namespace ios
