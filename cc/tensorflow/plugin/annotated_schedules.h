// Reads the schedules of regions from the annotations of their nodes.
#ifndef IOS_TF_CC_TENSORFLOW_PLUGIN_ANNOTATED_SCHEDULES_H_
#define IOS_TF_CC_TENSORFLOW_PLUGIN_ANNOTATED_SCHEDULES_H_

#include "cc/tensorflow/partition/regions.h"
#include "cc/tensorflow/plugin/lower.h"

namespace ios::tf {

// Returns a scheduler that reads the schedules from the nodes' attributes. The
// partition must outlive the scheduler.
RegionScheduler AnnotatedSchedules(const Partition& partition);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PLUGIN_ANNOTATED_SCHEDULES_H_
