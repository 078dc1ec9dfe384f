// Levels of operators, which keep regions convex.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_

#include <vector>

#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// Returns the level of each operator: the largest number of times that a path
// to it leaves the operators (or changes the device) and comes back. A path
// that leaves the operators of one level does not come back to that level.
// Returns an empty list if nodes inside of operators make a cycle.
std::vector<int> FindLevels(const Partition& partition);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_
