// Levels of operators, by which regions are convex.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_

#include <vector>

#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// The level of each operator: how often a path to it leaves the operators (or
// changes the device) and comes back. No path leaves the operators of one
// level and comes back to them. Empty if nodes inside of operators make a
// cycle.
std::vector<int> FindLevels(const Partition& partition);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_LEVELS_H_
