// Levels of operators. Regions are formed within a level, so that no path
// leaves a region and comes back to it.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_

#include <vector>

#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// Returns the level of each operator: the largest number of times that a path
// to this operator leaves the operators (through a node that TensorFlow runs,
// or to another device or data type) and comes back. A path that leaves the
// operators of one level thus never comes back to that level. Returns an empty
// list if the operators and nodes form a cycle.
std::vector<int> FindLevels(const Partition& partition);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_
