// Rewrite: schedules become attributes of ordinary nodes, merge stages become
// larger convolutions. The result runs in stock TensorFlow.
#ifndef IOS_TF_CC_TENSORFLOW_REWRITE_H_
#define IOS_TF_CC_TENSORFLOW_REWRITE_H_

#include <string>

#include "absl/status/status.h"
#include "cc/tensorflow/regions.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

// Sets `_ios_stage` and `_ios_stream` on the nodes of all operators of regions
// and materialises merges. `schedules` is a directory of <signature>.json files;
// blocks that have none, or a bad one, are left as they are, with one warning.
// `graph` is a copy of the partitioned graph.
absl::Status Rewrite(const Partition& partition, const std::string& schedules,
                     tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_REWRITE_H_
