// Regions: the largest sets of operators that no path leaves and enters again,
// and the blocks of each region.
#ifndef IOS_TF_CC_TENSORFLOW_PARTITION_REGIONS_H_
#define IOS_TF_CC_TENSORFLOW_PARTITION_REGIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cc/core/ir/block.h"
#include "cc/tensorflow/graph/placement.h"
#include "cc/tensorflow/import/importer.h"
#include "cc/tensorflow/partition/precision.h"
#include "cc/tensorflow/shapes/analyzed_graph.h"
#include "tensorflow/core/grappler/grappler_item.h"

namespace ios::tf {

struct PartitionOptions {
  // Replaces unknown leading dimensions.
  int64_t batch_size = 1;
  // The number of callers to schedule for.
  int64_t callers = 1;
  // Replaces unknown heights and widths of the graph's inputs.
  ImageSize image_size = kUsualImageSize;
  DevicePlacement placement;
  Precision precision;
};

// The operators that one IosRegion executes, all of one data type and on one
// device. `operators` has their indices in Partition::operators, in a
// topological order.
struct Region {
  std::vector<int> operators;
  // The region's blocks: consecutive parts of `operators`, which are scheduled
  // separately. A single tensor connects each block to the next.
  std::vector<std::vector<int>> blocks;
};

// A graph as operators and regions. The regions are in an order in which they
// can run.
struct Partition {
  std::unique_ptr<AnalyzedGraph> analyzed;
  GraphView& graph() const { return analyzed->graph(); }
  ShapeTable& shapes() const { return analyzed->shapes(); }
  const LayoutMap& layouts() const { return analyzed->layouts(); }
  // Returns the type in the graph of a tensor that an operator reads or
  // computes.
  DataType dtype(TensorRef tensor) const;

  DevicePlacement placement;
  int64_t callers = 1;  // to schedule for
  std::vector<ImportedOperator> operators;
  std::map<TensorRef, int> producer;  // operator by output tensor
  std::vector<Region> regions;
  // The shapes of tensors inside of regions. Their rank may differ from the
  // rank in the graph: [N,1,1,C] instead of [N,C].
  std::map<TensorRef, Shape> region_shapes;
  // The data types of tensors that no node outside of their region reads. They
  // may differ from the types in the graph.
  std::map<TensorRef, DataType> region_dtypes;
  // Nodes that a handler knows but that are left to TensorFlow, because the
  // handler refuses them or because they do not fit their region.
  std::vector<Refusal> refusals;
};

// Imports the graph and partitions it. Every region has a convolution, or is
// next to a region that has one (see IsWorthARegion). Operators outside of
// regions are left to TensorFlow. The item must outlive the partition.
absl::StatusOr<Partition> PartitionGraph(
    const tensorflow::grappler::GrapplerItem& item,
    const PartitionOptions& options);

}  // namespace ios::tf

#endif  // IOS_TF_CC_TENSORFLOW_PARTITION_REGIONS_H_
