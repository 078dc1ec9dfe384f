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

// A block made of some of the partition's operators. `inputs` and `operators`
// map its tensor references to the graph.
struct PartitionBlock {
  Block block;
  std::vector<TensorRef> inputs;
  std::vector<int> operators;  // by the block's operator index
};

// Returns the operators of one region in the order in which blocks are cut from
// it. The order is by the longest path to the end, so that results that are
// needed late are computed late. Operators of equal height are ordered by what
// they compute, then by their inputs, then by the operators that read their
// results, nearest first. The order of the graph's nodes cannot be used: in a
// server it differs from that in `ios_tf convert`, but equal blocks must have
// equal signatures in both.
std::vector<int> OrderByAlap(const Partition& partition,
                             std::vector<int> operators);

// Cuts the region wherever a single tensor is live. The search cuts further,
// for example for a NASNet cell, which reads two earlier cells: see
// ios_tf/scheduler/partition.
std::vector<std::vector<int>> CutIntoBlocks(const Partition& partition,
                                            const std::vector<int>& order);

// Joins consecutive blocks with nothing to schedule into one.
std::vector<std::vector<int>> JoinChains(const Partition& partition,
                                         std::vector<std::vector<int>> blocks);

// `operators` must be in a topological order.
PartitionBlock MakeBlock(const Partition& partition,
                         const std::vector<int>& operators, std::string name);

// Returns whether a block's operators depend on each other in a chain. A chain
// can run in one order only, so it has nothing to schedule.
bool IsChain(const Block& block);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_BLOCKS_H_
