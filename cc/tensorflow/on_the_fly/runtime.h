// Runtime: schedules for graphs that carry none, when TensorFlow optimises
// them: from the schedule cache or, for blocks that are not there, as the user
// wishes.
#ifndef IOS_TF_CC_TENSORFLOW_ON_THE_FLY_RUNTIME_H_
#define IOS_TF_CC_TENSORFLOW_ON_THE_FLY_RUNTIME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// The treatment of a region with a block that is not in the cache.
enum class OnMiss {
  kPass,    // stays TensorFlow's; the block is kept for `ios_tf tune`
  kGreedy,  // the block gets the greedy schedule
  kSearch,  // Python searches there and then; where it cannot, as kPass
};
absl::StatusOr<OnMiss> OnMissFromString(const std::string& text);
const char* ToString(OnMiss on_miss);  // "pass", …

struct RuntimeOptions {
  std::string cache_dir;
  OnMiss on_miss = OnMiss::kPass;
  int64_t batch_size = 1;  // in place of unknown leading dimensions
};

// The plugin's options for all graphs of the process; without any it only
// lowers those that carry schedules.
std::optional<RuntimeOptions> ProcessOptions();
void SetProcessOptions(std::optional<RuntimeOptions> options);

// Counts of the graphs, regions and blocks of this process.
struct RuntimeCounts {
  int annotated = 0;   // graphs that carried schedules
  int scheduled = 0;   // frozen graphs of which regions got schedules
  int passed = 0;      // frozen graphs that did not
  int not_frozen = 0;  // graphs whose convolutions' weights are no constants
  int regions = 0;     // regions the engine runs
  int cached = 0, greedy = 0, searched = 0, missed = 0;  // blocks
};
RuntimeCounts Counts();
void CountAnnotated(int regions);

// Whether the graph convolves with constants. One that convolves only with
// other tensors (a training step) is counted, and is none.
bool IsFrozenNetwork(const tensorflow::GraphDef& graph);

// Lowers the regions of a graph without schedules; returns how many. `graph` is
// a copy of the item's. Regions that have a block without a schedule stay.
absl::StatusOr<int> ScheduleAndLower(
    const tensorflow::grappler::GrapplerItem& item,
    const RuntimeOptions& options, PartitionOptions partition_options,
    tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_ON_THE_FLY_RUNTIME_H_
