// Blocks: orders the operators of a region, cuts them into parts that are
// scheduled separately, and converts these parts to the engine's blocks.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_BLOCKS_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_BLOCKS_H_

#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/tensorflow/graph/graph_view.h"
#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// A block that consists of some of the partition's operators. `inputs` has the
// graph's tensor for each input of `block`, and `operators` has the index in
// Partition::operators for each operator of `block`.
struct PartitionBlock {
  Block block;
  std::vector<TensorRef> inputs;
  std::vector<int> operators;
};

// Returns the operators of one region in the order for CutIntoBlocks(): "as
// late as possible" (ALAP). Operators with a longer path to the end of the
// region come first. Operators with equally long paths are ordered by their
// attributes, then by their inputs, then by their readers. The order of the
// graph's nodes must not matter: it differs between `ios_tf convert` and a
// server, but the blocks must have the same signatures in both.
std::vector<int> OrderByAlap(const Partition& partition,
                             std::vector<int> operators);

// Cuts a region at each position between two operators where only one tensor is
// needed later. Python cuts blocks further (ios_tf/scheduler/partition.py), for
// example into the cells of NASNet, each of which reads two earlier cells.
std::vector<std::vector<int>> CutIntoBlocks(const Partition& partition,
                                            const std::vector<int>& order);

// Joins consecutive blocks into one if they are chains, which have nothing to
// schedule.
std::vector<std::vector<int>> JoinChains(const Partition& partition,
                                         std::vector<std::vector<int>> blocks);

// Makes a block of `operators`, which must be in a topological order.
PartitionBlock MakeBlock(const Partition& partition,
                         const std::vector<int>& operators, std::string name);

// Returns whether a block is a chain: each operator reads the operator before
// it. A chain can run in one order only.
bool IsChain(const Block& block);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_BLOCKS_H_
