// Rewrite: schedules become attributes of ordinary nodes, merge stages become
// larger convolutions. The result runs in stock TensorFlow.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_REWRITE_H_
#define IOS_TF_CC_TENSORFLOW_MODES_REWRITE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/tensorflow/partition/regions.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace ios::tf {

struct RewriteOptions {
  // The JSON of schedules, by the signatures of their blocks. Blocks that do
  // not have a valid one for every batch size are left as they are, with one
  // warning.
  std::map<std::string, std::string> schedules;
  // Regions to leave to TensorFlow, by their numbers in Collect()'s blocks.
  std::set<int64_t> left;
  // Whether what all schedules merge becomes one convolution of the graph;
  // otherwise the engine merges it.
  bool materialise_merges = true;
};

// Annotates the nodes of all operators of regions, see annotations.h, and
// materialises the merges that the schedules for all batch sizes have in
// common. There is a partition for each of these, one or more; `graph` is a
// copy of the graph that they are of, and stays as it is if it has no regions.
absl::Status Rewrite(const std::vector<const Partition*>& partitions,
                     const RewriteOptions& options,
                     tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_MODES_REWRITE_H_
