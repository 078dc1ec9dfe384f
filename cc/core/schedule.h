// Schedule: the ordered stages of a block (paper, section 3), its JSON and its
// validation. An invalid schedule is never executed.
#ifndef IOS_TF_CC_CORE_SCHEDULE_H_
#define IOS_TF_CC_CORE_SCHEDULE_H_

#include <string>
#include <vector>

#include "cc/core/block.h"
#include "cc/core/status.h"

namespace ios {

enum class Strategy { kConcurrent, kMerge };

struct Stage {
  Strategy strategy = Strategy::kConcurrent;
  // kConcurrent: the connected components of the stage's operators, each in a
  // topological order. kMerge: one group, the operators that become one.
  std::vector<std::vector<int>> groups;
};

struct Schedule {
  std::vector<Stage> stages;
};

// One operator a stage, in the block's order.
Schedule SequentialSchedule(const Block& block);

// Every stage runs, concurrently, all operators that are ready (the paper's
// greedy baseline, section 6).
Schedule GreedySchedule(const Block& block);

// Every operator exactly once, no edge to an earlier stage, groups are the
// connected components in a topological order, merges are legal (merge.h).
Status Validate(const Schedule& schedule, const Block& block);

std::string ToJson(const Schedule& schedule);
// Other members of the JSON object (latencies, device …) are passed over.
StatusOr<Schedule> ScheduleFromJson(const std::string& json);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_SCHEDULE_H_
