// Lower: regions whose nodes carry a schedule become IosRegion ops.
#ifndef IOS_TF_CC_TENSORFLOW_LOWER_H_
#define IOS_TF_CC_TENSORFLOW_LOWER_H_

#include "absl/status/statusor.h"
#include "cc/tensorflow/regions.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// Whether any node has a `_ios_stage`.
bool IsAnnotated(const tensorflow::GraphDef& graph);

// Replaces every region with annotated operators by one IosRegion node; returns
// how many. `graph` is a copy of the partitioned graph.
absl::StatusOr<int> Lower(const Partition& partition,
                          tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_LOWER_H_
