// Lower: regions whose nodes carry a schedule become IosRegion ops.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_LOWER_H_
#define IOS_TF_CC_TENSORFLOW_MODES_LOWER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// Whether any node carries a schedule.
bool IsAnnotated(const tensorflow::GraphDef& graph);

// The schedules a region runs by; none leave it to TensorFlow. `block` is made
// of all operators of the region, `device` kCpu or kGpu.
using RegionScheduler = std::function<BatchSchedules(
    const Region& region, const Block& block, const std::string& device)>;

// The schedules that the nodes' attributes describe.
RegionScheduler AnnotatedSchedules(const Partition& partition);

// Replaces every region that gets schedules by one IosRegion node; returns how
// many. `graph` is a copy of the partitioned graph.
absl::StatusOr<int> Lower(const Partition& partition,
                          const RegionScheduler& scheduler,
                          tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_MODES_LOWER_H_
