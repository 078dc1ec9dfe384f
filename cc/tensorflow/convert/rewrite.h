// Rewrite: writes schedules as attributes of ordinary nodes, and merge stages
// as larger convolutions. The result runs in stock TensorFlow.
#ifndef IOS_TF_CC_TENSORFLOW_CONVERT_REWRITE_H_
#define IOS_TF_CC_TENSORFLOW_CONVERT_REWRITE_H_

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
  // Schedules as JSON, keyed by the signatures of their blocks. Chains of
  // operators need no schedule. Other blocks stay unchanged if they lack a
  // valid schedule for some batch size; one warning is logged for all of them.
  std::map<std::string, std::string> schedules;
  // Regions to leave to TensorFlow: values of "region" in Collect()'s blocks.
  std::set<int64_t> left;
  // True: a merge that is in all schedules becomes one convolution of the
  // graph. False: the engine merges the operators.
  bool materialise_merges = true;
};

// Annotates the nodes of all operators that belong to regions; see
// annotations.h. Materialises the merges that the schedules for all batch sizes
// have in common. `partitions` has one partition for each batch size, and at
// least one. `graph` is a copy of the partitioned graph, and stays unchanged if
// it has no regions.
absl::Status Rewrite(const std::vector<const Partition*>& partitions,
                     const RewriteOptions& options,
                     tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_REWRITE_H_
