// Schedule: the ordered stages of a block (paper, section 3), its JSON and its
// validation. An invalid schedule is never executed.
#ifndef IOS_TF_CC_CORE_IR_SCHEDULE_H_
#define IOS_TF_CC_CORE_IR_SCHEDULE_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/core/status.h"

namespace ios {

enum class Strategy {
  kConcurrent,  // groups run at the same time, on lanes
  kMerge,       // operators become one
  kSplit,       // micro-batches run at the same time, on lanes
};

struct Stage {
  Strategy strategy = Strategy::kConcurrent;
  // kConcurrent: the connected components of the stage's operators, each in a
  // topological order. kMerge: one group, the operators that become one.
  // kSplit: one group in a topological order, through which every micro-batch
  // goes.
  std::vector<std::vector<int>> groups;
  // kSplit: how many parts, of sizes as equal as can be, the batch is cut into,
  // but no more than it has images. 1 for other strategies.
  int64_t micro_batches = 1;
};

struct Schedule {
  std::vector<Stage> stages;
  // Of operators that are not computed by kDirect.
  std::map<int, Algorithm> algorithms = {};
};

// Schedules of one block, by the batch size each is for.
using BatchSchedules = std::map<int64_t, Schedule>;

// The entry of a map by batch sizes that is to be used for `batch`: that of the
// nearest size by ratio; of two that are equally near, that of the smaller. The
// end, if there is none.
template <typename ByBatch>
typename ByBatch::const_iterator NearestBatch(const ByBatch& sizes,
                                              int64_t batch) {
  const auto above = sizes.lower_bound(batch);
  if (above == sizes.begin()) return above;
  const auto below = std::prev(above);
  if (above == sizes.end()) return below;
  // batch / below <= above / batch, of numbers whose product may be large.
  const double square = static_cast<double>(batch) * batch;
  return square <= static_cast<double>(below->first) * above->first ? below
                                                                    : above;
}

// One operator a stage, in the block's order.
Schedule SequentialSchedule(const Block& block);

// Every stage runs, concurrently, all operators that are ready (the paper's
// greedy baseline, section 6).
Schedule GreedySchedule(const Block& block);

// The connected components of some operators, by the edges between these: in
// the order of their first, each in that of `operators`.
std::vector<std::vector<int>> ConnectedComponents(
    const Block& block, const std::vector<int>& operators);

// The block with the schedule's algorithms for those of its operators.
Block WithAlgorithms(Block block, const Schedule& schedule);

// Every operator exactly once, no edge to an earlier stage, groups are the
// connected components in a topological order, merges are legal (merge.h),
// splits make two micro-batches or more, algorithms are for the operators.
Status Validate(const Schedule& schedule, const Block& block);

// The same of stages that need not cover the block, nor come after those of
// their inputs.
Status ValidateStages(const std::vector<Stage>& stages, const Block& block);

std::string ToJson(const Schedule& schedule);
// Other members of the JSON object (latencies, device …) are passed over.
StatusOr<Schedule> ScheduleFromJson(const std::string& json);

// The schedule in a file of a schedule cache, if it is valid for this block,
// whose signature the file must name.
StatusOr<Schedule> ParseSchedule(const std::string& json, const Block& block);

}  // namespace ios

#endif  // IOS_TF_CC_CORE_IR_SCHEDULE_H_
