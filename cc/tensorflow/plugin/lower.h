// Lower: replaces regions that have schedules by IosRegion nodes, and prepares
// regions that may get schedules later.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_LOWER_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_LOWER_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/ops/region_watch.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

struct RegionSchedules {
  Schedules schedules;  // empty: the region stays in TensorFlow
  // The files that the schedules come from, if later versions of these files
  // are to be used while the process runs.
  std::optional<RegionWatch> watch;
};

// A function that returns the schedules of a region. `block` has all operators
// of the region, and `device` is kCpu or kGpu.
using RegionScheduler = std::function<RegionSchedules(
    const Region& region, const Block& block, const std::string& device)>;

// Replaces every region for which `scheduler` returns schedules by one
// IosRegion node in `graph`, a copy of the partitioned graph. Returns the
// number of these regions.
//
// A region that waits for schedules (RegionWatch::waits) is not replaced. It
// gets an IosRegion node in addition to its own nodes, and an IosRegionReady
// node chooses between them in each call. The result does not count it.
absl::StatusOr<int> Lower(const Partition& partition,
                          const RegionScheduler& scheduler,
                          tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_LOWER_H_
