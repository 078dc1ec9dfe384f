// Rewrite: schedules become attributes of ordinary nodes, merge stages become
// larger convolutions. The result runs in stock TensorFlow.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_REWRITE_H_
#define IOS_TF_CC_TENSORFLOW_MODES_REWRITE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

struct RewriteOptions {
  // Those to schedule for, one or more, in place of the partition's.
  std::vector<int64_t> batch_sizes = {1};
  // A directory of <signature>.json files. Blocks that do not have a valid one
  // for every batch size are left as they are, with one warning.
  std::string schedules;
  // Regions to leave to TensorFlow, by their numbers in Collect()'s blocks.
  std::set<int64_t> left;
  // Whether what all schedules merge becomes one convolution of the graph;
  // otherwise the engine merges it.
  bool materialise_merges = true;
};

// Annotates the nodes of all operators of regions, see annotations.h, and
// materialises the merges that the schedules for all batch sizes have in
// common. `graph` is left as it is if the item has no regions.
absl::Status Rewrite(const tensorflow::grappler::GrapplerItem& item,
                     PartitionOptions partition_options,
                     const RewriteOptions& options,
                     tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_MODES_REWRITE_H_
