// Schedule: the ordered stages of a block (paper, section 3), with JSON and
// validation. An invalid schedule is never executed.
#ifndef IOS_TF_CC_CORE_IR_SCHEDULE_H_
#define IOS_TF_CC_CORE_IR_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

enum class Strategy {
  kConcurrent,  // groups run at the same time, on lanes
  kMerge,       // operators become one convolution
  kSplit,       // micro-batches run at the same time, on lanes
};

const char* ToString(Strategy strategy);  // "concurrent", …

struct Stage {
  Strategy strategy = Strategy::kConcurrent;
  // kConcurrent: the connected components of the stage's operators, each in a
  //   topological order.
  // kMerge: one group with the operators that become one.
  // kSplit: one group in a topological order. Every micro-batch runs through
  //   this group.
  std::vector<std::vector<int>> groups;
  // kSplit: the number of parts of nearly equal size that the batch is cut
  // into. A batch with fewer images has one part per image. 1 for other
  // strategies.
  int64_t micro_batches = 1;
};

struct Schedule {
  std::vector<Stage> stages;
  // The algorithm of each operator, keyed by the operator's index. Operators
  // that are not listed use kDirect.
  std::map<int, Algorithm> algorithms = {};
};

// The load that a schedule is made for: the number of images of a call, and the
// number of callers that run the block at the same time.
struct Load {
  int64_t batch = 1;
  int64_t callers = 1;
  bool operator<(const Load& other) const {
    return std::tie(batch, callers) < std::tie(other.batch, other.callers);
  }
  bool operator==(const Load& other) const {
    return std::tie(batch, callers) == std::tie(other.batch, other.callers);
  }
};
inline Load LoadOf(const Block& block) {
  return {BatchSize(block), block.callers};
}

// Schedules of one block.
using Schedules = std::map<Load, Schedule>;

// Returns whether `number` is nearer to `below` than to `above` by ratio, or
// equally near.
inline bool IsNearerBelow(int64_t number, int64_t below, int64_t above) {
  // Tests number / below <= above / number, with products instead of quotients.
  // The products are computed in double, because they may exceed 64 bits.
  return static_cast<double>(number) * number <=
         static_cast<double>(below) * above;
}

// Returns the entry that a call under `load` uses, from a map with loads as
// keys. The entry has the batch size that is nearest to the batch size of
// `load` by ratio and, among the entries with this batch size, the nearest
// number of callers. If two numbers are equally near, the smaller one is used.
// Returns end() if the map is empty.
template <typename ByLoad>
typename ByLoad::const_iterator NearestLoad(const ByLoad& loads,
                                            const Load& load) {
  // Loads are in ascending order, so each one is compared with the nearest one
  // before it.
  auto nearest = loads.begin();
  for (auto it = nearest; it != loads.end(); ++it) {
    const Load &below = nearest->first, &above = it->first;
    const bool stays =
        below.batch == above.batch
            ? IsNearerBelow(load.callers, below.callers, above.callers)
            : IsNearerBelow(load.batch, below.batch, above.batch);
    if (!stays) nearest = it;
  }
  return nearest;
}

// Returns a schedule with one operator per stage, in the order of the block.
Schedule SequentialSchedule(const Block& block);

// Every stage runs, concurrently, all operators whose inputs are ready (the
// paper's greedy baseline, section 6).
Schedule GreedySchedule(const Block& block);

// Returns the connected components of the graph that consists of `operators`
// and the edges between them. The components are in the order of their first
// operators, and each component keeps the order of `operators`.
std::vector<std::vector<int>> ConnectedComponents(
    const Block& block, const std::vector<int>& operators);

// Returns the block with the schedule's algorithms stored in its operators.
Block WithAlgorithms(Block block, const Schedule& schedule);

// Checks that every operator occurs exactly once, no edge leads to an earlier
// stage, groups are the connected components in a topological order, merges are
// legal (merge.h), splits have two or more micro-batches, and algorithms can
// compute their operators.
Status Validate(const Schedule& schedule, const Block& block);

// Checks each stage separately. The stages need not contain all operators of
// the block, and may be in any order.
Status ValidateStages(const std::vector<Stage>& stages, const Block& block);

std::string ToJson(const Schedule& schedule);
// Reads a schedule. Other members of the JSON object, such as latencies and the
// device, are ignored.
StatusOr<Schedule> ScheduleFromJson(const std::string& json);

// Parses a file of a schedule cache. The schedule must be valid for `block`,
// and the file must contain the block's signature.
StatusOr<Schedule> ParseSchedule(const std::string& json, const Block& block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_SCHEDULE_H_
