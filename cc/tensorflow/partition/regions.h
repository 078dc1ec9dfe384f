// Regions: the maximal convex sets of operators of a graph, and their blocks.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_REGIONS_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_REGIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/core/ir/block.h"
#include "cc/tensorflow/graph/graph_index.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/importer.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

struct PartitionOptions {
  // In place of unknown leading dimensions.
  int64_t batch_size = 1;
  // In place of unknown heights and widths of the graph's inputs: the size most
  // networks for images were made for.
  int64_t image_size = 224;
  Placement placement;
};

// Operators that one IosRegion executes, of one type and on one device, as
// indices of Partition::operators in a topological order.
struct Region {
  std::vector<int> operators;
  // Consecutive runs of `operators`, each scheduled by itself: a single tensor
  // goes from one to the next.
  std::vector<std::vector<int>> blocks;
};

// A graph seen as operators. Regions are in an order in which they can run.
struct Partition {
  std::unique_ptr<GraphIndex> graph;
  Placement placement;
  std::vector<ImportedOperator> operators;
  std::map<TensorRef, int> producer;  // operator by output tensor
  std::vector<Region> regions;
  // Of the tensors inside of regions, where they may have another rank than in
  // the graph ([N,1,1,C] for [N,C]).
  std::map<TensorRef, Shape> shapes;
  // Nodes left to TensorFlow although their type is known, and why.
  std::vector<Refusal> refusals;
};

// A block made of some of the partition's operators, and what its tensor
// references stand for.
struct PartitionBlock {
  Block block;
  std::vector<TensorRef> inputs;
  std::vector<int> operators;  // by the block's operator index
};

// Imports the graph and partitions it. A region has at least one convolution;
// other operators are TensorFlow's. The item must outlive the partition.
absl::StatusOr<Partition> PartitionGraph(
    const tensorflow::grappler::GrapplerItem& item,
    const PartitionOptions& options);

// `operators` must be in a topological order.
PartitionBlock MakeBlock(const Partition& partition,
                         const std::vector<int>& operators, std::string name);

// Whether a block's operators depend on each other in a chain, so that there
// is only one order to run them in and nothing to schedule.
bool IsChain(const Block& block);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_REGIONS_H_
