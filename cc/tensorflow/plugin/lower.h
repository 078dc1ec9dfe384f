// Lower: replaces regions that have schedules by IosRegion nodes.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_LOWER_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_LOWER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// A function that returns the schedules of a region, or none if the region
// stays in TensorFlow. `block` has all operators of the region, and `device` is
// kCpu or kGpu.
using RegionScheduler = std::function<Schedules(
    const Region& region, const Block& block, const std::string& device)>;

// Replaces every region for which `scheduler` returns schedules by one
// IosRegion node in `graph`, a copy of the partitioned graph. Returns the
// number of these regions.
absl::StatusOr<int> Lower(const Partition& partition,
                          const RegionScheduler& scheduler,
                          tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_LOWER_H_
