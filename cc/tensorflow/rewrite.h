// Rewrite: schedules become attributes of ordinary nodes, merge stages become
// larger convolutions. The result runs in stock TensorFlow.
#ifndef IOS_TF_CC_TENSORFLOW_REWRITE_H_
#define IOS_TF_CC_TENSORFLOW_REWRITE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/tensorflow/regions.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

// Annotates the nodes of all operators of regions, see annotations.h, and
// materialises the merges that the schedules for all batch sizes have in common.
// `options`: of the partition; its batch size gives way to `batch_sizes`, one or
// more. `schedules` is a directory of <signature>.json files; blocks that do not
// have a valid one for every batch size are left as they are, with one warning.
// `graph` is left as it is if the item has no regions.
absl::Status Rewrite(const tensorflow::grappler::GrapplerItem& item,
                     PartitionOptions options,
                     const std::vector<int64_t>& batch_sizes,
                     const std::string& schedules, tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_REWRITE_H_
