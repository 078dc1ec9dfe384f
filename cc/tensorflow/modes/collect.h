// Collect: the blocks of a graph, as JSON for the Python scheduler.
#ifndef IOS_TF_CC_TENSORFLOW_MODES_COLLECT_H_
#define IOS_TF_CC_TENSORFLOW_MODES_COLLECT_H_

#include <string>

#include "absl/status/statusor.h"
#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// {"version": 1,
//  "problems": [problem.h, one for each different block],
//  "blocks": [{"signature", "names": of the operators, "region": int}],
//  "report": {"operators": {type: count}, "regions": count,
//             "nodes": count, "left_to_tensorflow": {op type: count},
//             "image_size": [height, width] or null,
//             "bound_sizes": [[batch, height, width]],
//             "refused": [{"node", "op", "reason"}]}}
// image_size: replaces the size that was asked for if the graph does not take
// that one. bound_sizes: sizes around each size at which a node starts to do
// something else, at which the result should be compared.
absl::StatusOr<std::string> Collect(const Partition& partition);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_MODES_COLLECT_H_
