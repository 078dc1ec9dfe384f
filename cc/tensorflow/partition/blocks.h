// Blocks: the operators of a region in order, cut into what is scheduled by
// itself, and as the engine takes them.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_BLOCKS_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_BLOCKS_H_

#include <string>
#include <vector>

#include "cc/core/ir/block.h"
#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/partition/regions.h"

namespace ios::tf {

// A block made of some of the partition's operators, and what its tensor
// references stand for.
struct PartitionBlock {
  Block block;
  std::vector<TensorRef> inputs;
  std::vector<int> operators;  // by the block's operator index
};

// The operators of one region in the order in which blocks are cut from it: by
// the longest path to the end, so that what is needed late comes late.
// Operators of equal height are told apart by what they compute, of what, and
// for what, as near to them as it differs: the order of the nodes is not the
// same in `ios_tf convert` and in a server, and equal blocks must have equal
// signatures wherever they are.
std::vector<int> OrderByAlap(const Partition& partition,
                             std::vector<int> operators);

// The region cut where a single tensor is live. The search cuts further (a
// NASNet cell reads two earlier ones): ios_tf/scheduler/partition.
std::vector<std::vector<int>> CutIntoBlocks(const Partition& partition,
                                            const std::vector<int>& order);

// Blocks with nothing to schedule are joined to one.
std::vector<std::vector<int>> JoinChains(const Partition& partition,
                                         std::vector<std::vector<int>> blocks);

// `operators` must be in a topological order.
PartitionBlock MakeBlock(const Partition& partition,
                         const std::vector<int>& operators, std::string name);

// Whether a block's operators depend on each other in a chain, so that there
// is only one order to run them in and nothing to schedule.
bool IsChain(const Block& block);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_BLOCKS_H_
