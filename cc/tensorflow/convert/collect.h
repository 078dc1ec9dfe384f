// Collect: describes the blocks of a graph as JSON for the Python scheduler.
#ifndef IOS_TF_CC_TENSORFLOW_CONVERT_COLLECT_H_
#define IOS_TF_CC_TENSORFLOW_CONVERT_COLLECT_H_

#include <string>

#include "absl/status/statusor.h"
#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// {"version": 1,
//  "problems": [problem.h, one for each different block],
//  "blocks": [{"signature", "names": of the operators, "region": int}],
//  "report": {"operators": {type: count}, "regions": count,
//             "nodes": count,
//             "left_to_tensorflow": [{"node", "op", "code", "text"}],
//             "image_size": [height, width] or null,
//             "bound_sizes": [[batch, height, width]]}}
// "left_to_tensorflow" has the nodes that no region computes. The code is that
// of a reason (cc/core/reason.h), and the text has the values of this node.
// "image_size" is the image size that is used if the graph does not accept the
// requested size. The converted model should be compared with the original at
// the input sizes in "bound_sizes". These sizes are on both sides of each
// bound: a size at which the behavior of a node changes (see size_bounds.h).
absl::StatusOr<std::string> Collect(const Partition& partition);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_CONVERT_COLLECT_H_
