#include "cc/core/ir/schedule.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/ir/block_json.h"
#include "cc/core/ir/merge.h"
#include "cc/core/limits.h"

namespace ios {
namespace {

using nlohmann::json;

constexpr Strategy kStrategies[] = {Strategy::kConcurrent, Strategy::kMerge,
                                    Strategy::kSplit};

// The group and position of each operator in the stage that is being checked.
// All stages share one object: a new table for each stage would take quadratic
// time, because a block may have as many stages as operators.
class StageMarks {
 public:
  explicit StageMarks(size_t operators)
      : group_(operators, -1), position_(operators, -1) {}

  void Enter(const Stage& stage) {
    for (size_t g = 0; g < stage.groups.size(); ++g) {
      for (size_t i = 0; i < stage.groups[g].size(); ++i) {
        const int op = stage.groups[g][i];
        group_[op] = g;
        position_[op] = i;
      }
    }
  }
  void Leave(const Stage& stage) {
    for (const std::vector<int>& group : stage.groups) {
      for (int op : group) group_[op] = position_[op] = -1;
    }
  }

  int group(int op) const { return group_[op]; }  // -1: not in this stage
  int position(int op) const { return position_[op]; }

 private:
  std::vector<int> group_, position_;
};

Status CheckGroups(const Block& block, const Stage& stage,
                   const std::string& where, const StageMarks& marks) {
  // The operators of a group must be connected by edges of the stage, except in
  // a split.
  for (const auto& group : stage.groups) {
    for (int op : group) {
      for (int ref : block.operators[op].inputs) {
        if (ref < 0 || marks.group(ref) < 0) continue;
        if (marks.group(ref) != marks.group(op)) {
          return InvalidArgument(
              where + ": operators " + std::to_string(ref) + " and " +
              std::to_string(op) +
              " must be in the same group, because one reads the other");
        }
        if (marks.position(ref) > marks.position(op)) {
          return InvalidArgument(where + ": operator " + std::to_string(op) +
                                 " must come after its input " +
                                 std::to_string(ref));
        }
      }
    }
    if (stage.strategy == Strategy::kSplit) continue;
    const std::vector<std::vector<int>> parts =
        ConnectedComponents(block, group);
    if (parts.size() > 1) {
      return InvalidArgument(
          where + ": operators " + std::to_string(parts[1][0]) + " and " +
          std::to_string(group[0]) +
          " must be in different groups, because no edges connect them");
    }
  }
  return Status();
}

Status CheckStage(const Block& block, const Stage& stage,
                  const std::string& where, StageMarks* marks) {
  if (stage.strategy != Strategy::kConcurrent && stage.groups.size() != 1) {
    return InvalidArgument(std::string(ToString(stage.strategy)) + " " + where +
                           " must have one group");
  }
  if ((stage.strategy == Strategy::kSplit) != (stage.micro_batches > 1)) {
    return InvalidArgument(std::string(ToString(stage.strategy)) + " " + where +
                           " cannot have "
                           "micro_batches=" +
                           std::to_string(stage.micro_batches));
  }
  if (stage.strategy == Strategy::kMerge) {
    const StatusOr<MergePlan> plan = PlanMerge(block, stage.groups[0]);
    if (plan.ok()) return Status();
    return InvalidArgument(where + ": " + plan.status().message());
  }
  marks->Enter(stage);
  const Status status = CheckGroups(block, stage, where, *marks);
  marks->Leave(stage);
  return status;
}

// Sets stage_of[op] to `number` for each operator of the stage. Returns an
// error if an operator does not exist or already has a stage.
Status CheckMembers(const Stage& stage, int number,
                    std::vector<int>* stage_of) {
  const int n = stage_of->size();
  const std::string where = "stage " + std::to_string(number);
  if (stage.groups.empty()) return InvalidArgument(where + " is empty");
  for (const auto& group : stage.groups) {
    if (group.empty()) return InvalidArgument(where + " has an empty group");
    for (int op : group) {
      if (op < 0 || op >= n) {
        return InvalidArgument("there is no operator " + std::to_string(op) +
                               "; the number of operators of the block is " +
                               std::to_string(n));
      }
      if ((*stage_of)[op] >= 0) {
        return InvalidArgument("operator " + std::to_string(op) +
                               " is scheduled twice");
      }
      (*stage_of)[op] = number;
    }
  }
  return Status();
}

// Reads the optional member "algorithms": {name of an algorithm: [operators]}.
Status ReadAlgorithms(const json& value, Schedule* schedule) {
  const auto algorithms = value.find("algorithms");
  if (algorithms == value.end()) return Status();
  Status malformed = InvalidArgument(
      "the schedule's member \"algorithms\" must map names of algorithms to "
      "lists of operator indices");
  if (!algorithms->is_object()) return malformed;
  for (const auto& [name, operators] : algorithms->items()) {
    IOS_ASSIGN_OR_RETURN(const Algorithm algorithm, AlgorithmFromString(name));
    if (!operators.is_array()) return malformed;
    for (const json& item : operators) {
      int op;
      if (!ReadInteger(item, &op)) return malformed;
      schedule->algorithms[op] = algorithm;
    }
  }
  return Status();
}

}  // namespace

const char* ToString(Strategy strategy) {
  switch (strategy) {
    case Strategy::kConcurrent:
      return "concurrent";
    case Strategy::kMerge:
      return "merge";
    case Strategy::kSplit:
      return "split";
  }
  return "";
}

Schedule SequentialSchedule(const Block& block) {
  Schedule schedule;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    schedule.stages.push_back({Strategy::kConcurrent, {{static_cast<int>(i)}}});
  }
  return schedule;
}

Schedule GreedySchedule(const Block& block) {
  Schedule schedule;
  std::vector<size_t> stage_of;
  for (const Operator& op : block.operators) {
    size_t stage = 0;
    for (int ref : op.inputs) {
      if (ref >= 0) stage = std::max(stage, stage_of[ref] + 1);
    }
    if (stage == schedule.stages.size()) schedule.stages.emplace_back();
    // No edge connects operators of the same stage, so each operator is a group
    // of its own.
    schedule.stages[stage].groups.push_back(
        {static_cast<int>(stage_of.size())});
    stage_of.push_back(stage);
  }
  return schedule;
}

std::vector<std::vector<int>> ConnectedComponents(
    const Block& block, const std::vector<int>& operators) {
  std::map<int, int> parent;
  for (int i : operators) parent[i] = i;
  const auto root = [&](int i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (int i : operators) {
    for (int ref : block.operators[i].inputs) {
      if (parent.count(ref) > 0) parent[root(ref)] = root(i);
    }
  }
  std::vector<std::vector<int>> components;
  std::map<int, int> number;  // component number, keyed by root
  for (int i : operators) {
    const auto [it, is_new] = number.try_emplace(root(i), components.size());
    if (is_new) components.emplace_back();
    components[it->second].push_back(i);
  }
  return components;
}

Block WithAlgorithms(Block block, const Schedule& schedule) {
  for (const auto& [op, algorithm] : schedule.algorithms) {
    block.operators[op].algorithm = algorithm;
  }
  return block;
}

Status ValidateStages(const std::vector<Stage>& stages, const Block& block) {
  StageMarks marks(block.operators.size());
  std::vector<int> stage_of(block.operators.size(), -1);
  for (size_t s = 0; s < stages.size(); ++s) {
    IOS_RETURN_IF_ERROR(CheckMembers(stages[s], s, &stage_of));
    IOS_RETURN_IF_ERROR(
        CheckStage(block, stages[s], "stage " + std::to_string(s), &marks));
  }
  return Status();
}

Status Validate(const Schedule& schedule, const Block& block) {
  const int n = block.operators.size();
  std::vector<int> stage_of(n, -1);
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    IOS_RETURN_IF_ERROR(CheckMembers(schedule.stages[s], s, &stage_of));
  }
  for (int i = 0; i < n; ++i) {
    if (stage_of[i] < 0) {
      return InvalidArgument("operator " + std::to_string(i) +
                             " is not scheduled");
    }
    for (int ref : block.operators[i].inputs) {
      if (ref >= 0 && stage_of[ref] > stage_of[i]) {
        return InvalidArgument("operator " + std::to_string(i) +
                               " runs in an earlier stage than its input " +
                               std::to_string(ref));
      }
    }
  }
  for (const auto& [op, algorithm] : schedule.algorithms) {
    if (op < 0 || op >= n || !MayCompute(block.operators[op], algorithm)) {
      return InvalidArgument("operator " + std::to_string(op) +
                             " cannot be computed with the algorithm " +
                             ToString(algorithm));
    }
  }
  return ValidateStages(schedule.stages, block);
}

std::string ToJson(const Schedule& schedule) {
  json stages = json::array();
  for (const Stage& stage : schedule.stages) {
    json item = {{"strategy", ToString(stage.strategy)},
                 {"groups", stage.groups}};
    if (stage.strategy == Strategy::kSplit) {
      item["micro_batches"] = stage.micro_batches;
    }
    stages.push_back(std::move(item));
  }
  json out = {{"version", kFormatVersion}, {"stages", stages}};
  for (const auto& [op, algorithm] : schedule.algorithms) {
    out["algorithms"][ToString(algorithm)].push_back(op);
  }
  return out.dump();
}

StatusOr<Schedule> ScheduleFromJsonValue(const json& value) {
  IOS_RETURN_IF_ERROR(CheckVersion(value, "schedule"));
  const Status malformed = InvalidArgument(
      "the schedule's member \"stages\" must be a list of stages with "
      "\"strategy\" and \"groups\" (lists of operator indices)");
  const auto stages = value.find("stages");
  if (stages == value.end() || !stages->is_array()) return malformed;
  Schedule schedule;
  for (const json& item : *stages) {
    if (!item.is_object()) return malformed;
    const auto name = item.find("strategy"), groups = item.find("groups");
    if (name == item.end() || groups == item.end() || !groups->is_array()) {
      return malformed;
    }
    Stage stage;
    const auto strategy =
        std::find_if(std::begin(kStrategies), std::end(kStrategies),
                     [&](Strategy known) { return *name == ToString(known); });
    if (strategy == std::end(kStrategies)) return malformed;
    stage.strategy = *strategy;
    const auto micro_batches = item.find("micro_batches");
    if (micro_batches != item.end() &&
        (!ReadInteger(*micro_batches, &stage.micro_batches) ||
         stage.micro_batches > kMaxDimension)) {
      return malformed;
    }
    for (const json& members : *groups) {
      if (!members.is_array()) return malformed;
      std::vector<int> group;
      for (const json& op : members) {
        int index;
        if (!ReadInteger(op, &index)) return malformed;
        group.push_back(index);
      }
      stage.groups.push_back(std::move(group));
    }
    schedule.stages.push_back(std::move(stage));
  }
  IOS_RETURN_IF_ERROR(ReadAlgorithms(value, &schedule));
  return schedule;
}

StatusOr<Schedule> ScheduleFromJson(const std::string& text) {
  IOS_ASSIGN_OR_RETURN(const json value, ParseDocument(text, "schedule"));
  return ScheduleFromJsonValue(value);
}

StatusOr<Schedule> ParseSchedule(const std::string& text, const Block& block) {
  IOS_ASSIGN_OR_RETURN(const json value, ParseDocument(text, "schedule"));
  IOS_ASSIGN_OR_RETURN(Schedule schedule, ScheduleFromJsonValue(value));
  const auto signature = value.find("signature");
  if (signature == value.end() || *signature != Signature(block)) {
    return InvalidArgument("the schedule is for another block");
  }
  IOS_RETURN_IF_ERROR(Validate(schedule, block));
  return schedule;
}

}  // namespace ios
