// Runtime: gives schedules to graphs without annotations when TensorFlow
// optimises them. Schedules come from the schedule cache. An option says what
// happens to blocks that are not in the cache.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_RUNTIME_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_RUNTIME_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// The treatment of a region if one of its blocks is not in the cache.
enum class OnMiss {
  kSkip,    // leave it to TensorFlow; keep the block for `ios_tf tune`
  kGreedy,  // give the block the greedy schedule
  kSearch,  // search in Python at once; if that fails, as kSkip
};
absl::StatusOr<OnMiss> OnMissFromString(const std::string& text);
const char* ToString(OnMiss on_miss);  // "skip", …

struct RuntimeOptions {
  std::string cache_dir;
  OnMiss on_miss = OnMiss::kSkip;
  int64_t batch_size = 1;  // replaces unknown leading dimensions
  int64_t callers = 1;     // schedules are looked up for this number
  Precision precision;
};

// The plugin's options for all graphs of the process. Without options, the
// plugin only lowers annotated graphs.
std::optional<RuntimeOptions> ProcessOptions();
void SetProcessOptions(std::optional<RuntimeOptions> options);

// Counts of the graphs, regions and blocks of this process.
struct RuntimeCounts {
  int annotated = 0;   // graphs that carried schedules
  int scheduled = 0;   // frozen graphs with scheduled regions
  int passed = 0;      // frozen graphs without scheduled regions
  int not_frozen = 0;  // graphs without any constant convolution filter
  int regions = 0;     // regions that the engine runs
  int cached = 0, greedy = 0, searched = 0;  // blocks
  int missed = 0;     // blocks that still have no schedule
  int picked_up = 0;  // times that a region got a new schedule later
};
RuntimeCounts Counts();
void CountAnnotated(int regions);

// Returns true if some convolution of the graph has a constant filter. A graph
// in which no convolution has a constant filter, such as a training step,
// counts as `not_frozen`.
bool IsFrozenNetwork(const tensorflow::GraphDef& graph);

// Finds schedules for a graph without annotations, lowers its regions in
// `graph` (a copy of the item's graph), and returns the number of these
// regions. TensorFlow runs a region until the cache has a schedule for each of
// its blocks. With RefreshSeconds() == 0, such a region stays unchanged.
absl::StatusOr<int> ScheduleAndLower(
    const tensorflow::grappler::GrapplerItem& item,
    const RuntimeOptions& options, PartitionOptions partition_options,
    tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_RUNTIME_H_
