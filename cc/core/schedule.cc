#include "cc/core/schedule.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "cc/core/block_json.h"
#include "cc/core/merge.h"

namespace ios {
namespace {

using nlohmann::json;

constexpr Strategy kStrategies[] = {Strategy::kConcurrent, Strategy::kMerge,
                                    Strategy::kSplit};

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

Status CheckGroups(const Block& block, const Stage& stage,
                   const std::string& where) {
  std::vector<int> group_of(block.operators.size(), -1);
  std::vector<int> position(block.operators.size(), -1);
  for (size_t g = 0; g < stage.groups.size(); ++g) {
    for (size_t i = 0; i < stage.groups[g].size(); ++i) {
      group_of[stage.groups[g][i]] = g;
      position[stage.groups[g][i]] = i;
    }
  }
  // Within one group, operators connect through edges of the stage; those of a
  // split need not.
  std::vector<int> root(block.operators.size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](int i) {
    while (root[i] != i) i = root[i];
    return i;
  };
  for (const auto& group : stage.groups) {
    for (int op : group) {
      for (int ref : block.operators[op].inputs) {
        if (ref < 0 || group_of[ref] < 0) continue;
        if (group_of[ref] != group_of[op]) {
          return InvalidArgument(where + ": operators " + std::to_string(ref) +
                                 " and " + std::to_string(op) +
                                 " are connected but in different groups");
        }
        if (position[ref] > position[op]) {
          return InvalidArgument(where + ": operator " + std::to_string(op) +
                                 " comes before its input " +
                                 std::to_string(ref));
        }
        root[find(ref)] = find(op);
      }
    }
    for (int op : group) {
      if (stage.strategy != Strategy::kSplit && find(op) != find(group[0])) {
        return InvalidArgument(where + ": operators " + std::to_string(op) +
                               " and " + std::to_string(group[0]) +
                               " share a group but are not connected");
      }
    }
  }
  return Status();
}

}  // namespace

Schedule SequentialSchedule(const Block& block) {
  Schedule schedule;
  for (size_t i = 0; i < block.operators.size(); ++i) {
    schedule.stages.push_back(
        {Strategy::kConcurrent, {{static_cast<int>(i)}}});
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
    // Operators that are ready together are not connected.
    schedule.stages[stage].groups.push_back(
        {static_cast<int>(stage_of.size())});
    stage_of.push_back(stage);
  }
  return schedule;
}

Status Validate(const Schedule& schedule, const Block& block) {
  const int n = block.operators.size();
  std::vector<int> stage_of(n, -1);
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const Stage& stage = schedule.stages[s];
    if (stage.groups.empty()) {
      return InvalidArgument("stage " + std::to_string(s) + " is empty");
    }
    for (const auto& group : stage.groups) {
      if (group.empty()) {
        return InvalidArgument("stage " + std::to_string(s) +
                               " has an empty group");
      }
      for (int op : group) {
        if (op < 0 || op >= n) {
          return InvalidArgument("there is no operator " + std::to_string(op) +
                                 " in a block of " + std::to_string(n));
        }
        if (stage_of[op] >= 0) {
          return InvalidArgument("operator " + std::to_string(op) +
                                 " is scheduled twice");
        }
        stage_of[op] = s;
      }
    }
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
  for (size_t s = 0; s < schedule.stages.size(); ++s) {
    const Stage& stage = schedule.stages[s];
    const std::string where = "stage " + std::to_string(s);
    if (stage.strategy != Strategy::kConcurrent && stage.groups.size() != 1) {
      return InvalidArgument(std::string(ToString(stage.strategy)) + " " +
                             where + " must have one group");
    }
    if ((stage.strategy == Strategy::kSplit) != (stage.micro_batches > 1)) {
      return InvalidArgument(std::string(ToString(stage.strategy)) + " " +
                             where + " cannot have " +
                             std::to_string(stage.micro_batches) +
                             " micro-batches");
    }
    if (stage.strategy == Strategy::kMerge) {
      const StatusOr<MergePlan> plan = PlanMerge(block, stage.groups[0]);
      if (!plan.ok()) {
        return InvalidArgument(where + ": " + plan.status().message());
      }
    } else {
      IOS_RETURN_IF_ERROR(CheckGroups(block, stage, where));
    }
  }
  return Status();
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
  return json{{"version", kFormatVersion}, {"stages", stages}}.dump();
}

StatusOr<Schedule> ScheduleFromJson(const std::string& text) {
  IOS_ASSIGN_OR_RETURN(const json value, ParseVersioned(text, "schedule"));
  const Status malformed = InvalidArgument("schedule has malformed stages");
  const auto stages = value.find("stages");
  if (stages == value.end() || !stages->is_array()) return malformed;
  Schedule schedule;
  for (const json& item : *stages) {
    if (!item.is_object() || !item.contains("strategy") ||
        !item.contains("groups") || !item["groups"].is_array()) {
      return malformed;
    }
    Stage stage;
    const auto strategy = std::find_if(
        std::begin(kStrategies), std::end(kStrategies),
        [&](Strategy known) { return item["strategy"] == ToString(known); });
    if (strategy == std::end(kStrategies)) return malformed;
    stage.strategy = *strategy;
    const json micro_batches = item.value("micro_batches", json(1));
    if (!micro_batches.is_number_integer()) return malformed;
    stage.micro_batches = micro_batches.get<int64_t>();
    for (const json& members : item["groups"]) {
      if (!members.is_array()) return malformed;
      std::vector<int> group;
      for (const json& op : members) {
        if (!op.is_number_integer()) return malformed;
        group.push_back(op.get<int>());
      }
      stage.groups.push_back(std::move(group));
    }
    schedule.stages.push_back(std::move(stage));
  }
  return schedule;
}

}  // namespace ios
