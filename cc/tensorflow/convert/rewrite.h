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
  // Schedules as JSON, keyed by the signatures of their blocks. A block that is
  // a chain of operators needs no schedule. Any other block stays unchanged if
  // it lacks a valid schedule for one of the loads. A single warning lists
  // these blocks.
  std::map<std::string, std::string> schedules;
  // The numbers of the regions that stay in TensorFlow: values of "region" in
  // the JSON of Collect().
  std::set<int64_t> left;
  // If true, a merge that all schedules contain becomes one convolution of the
  // graph. If false, the graph keeps the separate convolutions, and the engine
  // merges them when it runs.
  bool materialise_merges = true;
};

// Annotates the nodes of all operators that belong to regions (see
// annotations.h), and writes merged convolutions. `partitions` has one
// partition for each load, and at least one. `graph` is a copy of the
// partitioned graph; it stays unchanged if it has no regions.
absl::Status Rewrite(const std::vector<const Partition*>& partitions,
                     const RewriteOptions& options,
                     tensorflow::GraphDef* graph);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_REWRITE_H_
