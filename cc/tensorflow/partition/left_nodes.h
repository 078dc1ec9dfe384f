// The nodes that no region computes, with the reasons.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_LEFT_NODES_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_LEFT_NODES_H_

#include <vector>

#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// Returns one refusal for each node that is left to TensorFlow, in the graph's
// order. Constants and nodes that only pass tensors on are not listed.
std::vector<Refusal> LeftNodes(const Partition& partition);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_LEFT_NODES_H_
