// Tests that regions are convex, where they are cut into blocks, and in which
// precision they compute.
#include "cc/tensorflow/partition/regions.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/partition/levels.h"
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using Names = std::vector<std::string>;

Partition PartitionOf(const TestGraph& graph, Precision precision = {}) {
  PartitionOptions options;
  options.precision = std::move(precision);
  absl::StatusOr<Partition> partition = PartitionGraph(graph.item(), options);
  EXPECT(partition.ok());
  return *std::move(partition);
}

std::string NameOf(const Partition& partition, int op) {
  const TensorRef output = partition.operators[op].output;
  return partition.graph().node(output.node).name();
}

Names NamesOf(const Partition& partition, const std::vector<int>& operators) {
  Names names;
  for (int op : operators) names.push_back(NameOf(partition, op));
  return names;
}

// Adds a diamond: a 1x1 and a 3x3 convolution of `input`, concatenated.
std::string Diamond(TestGraph* graph, const std::string& name,
                    const std::string& input, bool turned = false) {
  const auto branch = [&](int size) {
    graph->Convolution(name + std::to_string(size), input, size, 4, 2);
  };
  branch(turned ? 3 : 1);
  branch(turned ? 1 : 3);
  return graph->Concat(name, {name + "1", name + "3"});
}

TEST(ARegionHasAConvolution) {
  TestGraph without({1, 8, 8, 4});
  without.Fetch(without.Op("relu", "Relu", {"image"}));
  EXPECT(PartitionOf(without).regions.empty());

  TestGraph graph({1, 8, 8, 4});
  graph.Convolution("conv", "image", 3, 4, 4);
  graph.Op("relu", "Relu", {"conv"});
  graph.Fetch(graph.Pool("pool", "relu", 2, 2));
  const Partition partition = PartitionOf(graph);
  EXPECT(partition.regions.size() == 1);
  EXPECT(NamesOf(partition, partition.regions[0].operators) ==
         (Names{"relu", "pool"}));
}

TEST(WhatLeavesARegionDoesNotComeBack) {
  // The sum reads a node that TensorFlow computes from the first convolution,
  // so the sum cannot be in the convolution's region.
  TestGraph graph({1, 8, 8, 4});
  graph.Convolution("first", "image", 3, 4, 4);
  graph.Op("tensorflow", "Floor", {"first"});
  graph.Convolution("beside", "first", 3, 4, 4);
  graph.Convolution("behind", "tensorflow", 1, 4, 4);
  graph.Fetch(graph.Op("sum", "AddV2", {"beside", "behind"}));
  const Partition partition = PartitionOf(graph);
  const std::vector<int> levels = FindLevels(partition);
  for (size_t k = 0; k < levels.size(); ++k) {
    const std::string name = NameOf(partition, k);
    EXPECT(levels[k] == (name == "behind" || name == "sum" ? 1 : 0));
  }
  EXPECT(partition.regions.size() == 2);
  EXPECT(NamesOf(partition, partition.regions[0].operators) ==
         (Names{"first", "beside"}));
  EXPECT(NamesOf(partition, partition.regions[1].operators) ==
         (Names{"behind", "sum"}));
}

TEST(WhatIsWaitedForIsAWayOutToo) {
  for (const bool prints : {false, true}) {
    TestGraph graph({1, 8, 8, 4});
    graph.Convolution("first", "image", 3, 4, 4);
    auto waited_for =
        graph.Builder("tensorflow", prints ? "Print" : "Floor", {{"first"}});
    if (prints) {
      waited_for.Input({{"first", 0, ::tensorflow::DT_FLOAT}});
    }
    graph.Add(waited_for);
    const std::string filter = graph.Floats("filter", {1, 1, 4, 4});
    graph.Add(graph.Builder("second", "Conv2D", {{"first"}, {filter}})
                  .ControlInput("tensorflow")
                  .Attr("strides", TestGraph::Sizes{1, 1, 1, 1})
                  .Attr("padding", "SAME"));
    graph.Fetch("second");
    // A node without an effect (`prints` is false) is not waited for, so both
    // operators have level 0.
    const Partition partition = PartitionOf(graph);
    EXPECT(FindLevels(partition) == (std::vector<int>{0, prints}));
    EXPECT(partition.regions.size() == (prints ? 2 : 1));
  }
}

TEST(ReadersOfOneTensorAreOneRegion) {
  TestGraph graph({1, 8, 8, 4});
  graph.Fetch(graph.Convolution("a", "image", 1, 4, 4));
  graph.Fetch(graph.Convolution("b", "image", 3, 4, 4));
  EXPECT(PartitionOf(graph).regions.size() == 1);
  // Two convolutions that read different tensors are two regions.
  TestGraph apart({1, 8, 8, 4});
  apart.Op("tensorflow", "Floor", {"image"});
  apart.Fetch(apart.Convolution("a", "image", 1, 4, 4));
  apart.Fetch(apart.Convolution("b", "tensorflow", 3, 4, 4));
  EXPECT(PartitionOf(apart).regions.size() == 2);
}

TEST(BlocksAreCutWhereOneTensorIsLive) {
  TestGraph graph({1, 8, 8, 4});
  graph.Convolution("stem", "image", 3, 4, 4);
  graph.Convolution("neck", "stem", 3, 4, 4);
  Diamond(&graph, "first", "neck");
  graph.Fetch(Diamond(&graph, "second", "first"));
  const Partition partition = PartitionOf(graph);
  EXPECT(partition.regions.size() == 1);
  std::vector<std::set<std::string>> blocks;
  for (const std::vector<int>& block : partition.regions[0].blocks) {
    const Names names = NamesOf(partition, block);
    blocks.emplace_back(names.begin(), names.end());
  }
  // The chain of `stem` and `neck` is one block.
  EXPECT(blocks == (std::vector<std::set<std::string>>{
                       {"stem", "neck"},
                       {"first", "first1", "first3"},
                       {"second", "second1", "second3"}}));
  const PartitionBlock made =
      MakeBlock(partition, partition.regions[0].blocks[1], "made");
  EXPECT(made.block.inputs == (std::vector<Shape>{{1, 8, 8, 4}}));
  EXPECT(made.inputs.size() == 1 &&
         partition.graph().node(made.inputs[0].node).name() == "neck");
  EXPECT(made.block.outputs == std::vector<int>{2});
  EXPECT(Validate(made.block).ok() && !IsChain(made.block));
}

TEST(AShortcutKeepsABlockTogether) {
  TestGraph graph({1, 8, 8, 4});
  graph.Convolution("a", "image", 3, 4, 4);
  graph.Convolution("b", "a", 3, 4, 4);
  graph.Convolution("c", "b", 3, 4, 4);
  // The last concat reads `a`, so two tensors are needed there and the region
  // is not cut.
  graph.Fetch(graph.Concat("end", {"a", "c"}));
  const Partition partition = PartitionOf(graph);
  const std::vector<std::vector<int>>& blocks = partition.regions[0].blocks;
  // Each operator reads the one before it, so the region is a chain and stays
  // one block.
  EXPECT(blocks.size() == 1);
  EXPECT(CutIntoBlocks(partition, partition.regions[0].operators).size() == 2);
}

TEST(OrderDoesNotDependOnThatOfTheNodes) {
  std::string signatures[2];
  for (const bool turned : {false, true}) {
    TestGraph graph({1, 8, 8, 4});
    graph.Fetch(Diamond(&graph, "end", "image", turned));
    const Partition partition = PartitionOf(graph);
    const std::vector<int>& operators = partition.regions[0].operators;
    signatures[turned] = Signature(MakeBlock(partition, operators, "").block);
  }
  EXPECT(signatures[0] == signatures[1]);
}

TEST(WhatTensorFlowReadsInsideIsAnOutput) {
  TestGraph graph({1, 8, 8, 4});
  graph.Convolution("a", "image", 3, 4, 4);
  graph.Fetch(graph.Op("tensorflow", "Floor", {"a"}));
  graph.Fetch(graph.Convolution("b", "a", 3, 4, 4));
  const Partition partition = PartitionOf(graph);
  const PartitionBlock made =
      MakeBlock(partition, partition.regions[0].operators, "");
  EXPECT(made.block.outputs == (std::vector<int>{0, 1}));
}

// Returns a classifier of three convolutions. TensorFlow also reads the first
// one.
TestGraph Classifier() {
  TestGraph graph({1, 8, 8, 4});
  graph.Convolution("first", "image", 3, 4, 4);
  graph.Fetch(graph.Op("tensorflow", "Floor", {"first"}));
  Diamond(&graph, "diamond", "first");
  graph.Convolution("last", "diamond", 1, 4, 4);
  graph.Mean("mean", "last", /*keep_dims=*/false);
  graph.Fetch(graph.Op("softmax", "Softmax", {"mean"}));
  return graph;
}

TEST(OperatorsComputeInBFloat16) {
  const TestGraph graph = Classifier();
  const Partition partition = PartitionOf(graph, {DataType::kBFloat16, {}});
  for (const ImportedOperator& op : partition.operators) {
    EXPECT(op.dtype == (op.op.type == OperatorType::kSoftmax
                            ? DataType::kFloat32
                            : DataType::kBFloat16));
  }
  // The softmax is not in the region, because it computes in float32.
  EXPECT(partition.regions.size() == 1);
  const Region& region = partition.regions[0];
  EXPECT(NamesOf(partition, region.operators).back() == "mean");
  const Block whole = MakeBlock(partition, region.operators, "").block;
  EXPECT(whole.dtype == DataType::kBFloat16);
  EXPECT(whole.input_dtypes == std::vector<DataType>{DataType::kFloat32});
  EXPECT(whole.output_dtypes ==
         (std::vector<DataType>{DataType::kFloat32, DataType::kFloat32}));

  // A tensor between two blocks is float32 only if TensorFlow reads it.
  EXPECT(region.blocks.size() == 3);
  const Block second = MakeBlock(partition, region.blocks[1], "").block;
  EXPECT(second.input_dtypes == std::vector<DataType>{DataType::kFloat32});
  EXPECT(second.output_dtypes.empty());
  const Block third = MakeBlock(partition, region.blocks[2], "").block;
  EXPECT(third.input_dtypes.empty());
  EXPECT(third.output_dtypes == std::vector<DataType>{DataType::kFloat32});
}

TEST(ARegionHasOnePrecision) {
  const TestGraph graph = Classifier();
  const Partition partition =
      PartitionOf(graph, {DataType::kBFloat16, {"diamond3"}});
  std::vector<std::set<std::string>> narrow, wide;
  for (const Region& region : partition.regions) {
    const Names names = NamesOf(partition, region.operators);
    const Block block = MakeBlock(partition, region.operators, "").block;
    (block.dtype == DataType::kBFloat16 ? narrow : wide)
        .emplace_back(names.begin(), names.end());
    EXPECT(OutputDtype(block, 0) == DataType::kFloat32);
  }
  EXPECT(wide == (std::vector<std::set<std::string>>{{"diamond3"}}));
  // No path leaves a region and comes back.
  EXPECT(narrow == (std::vector<std::set<std::string>>{
                       {"first", "diamond1"}, {"diamond", "last", "mean"}}));
}

TEST(ARegionNextToAnotherPrecisionNeedsNoConvolution) {
  for (const bool is_split : {false, true}) {
    TestGraph graph({1, 8, 8, 4});
    graph.Convolution("conv", "image", 3, 4, 4);
    if (!is_split) graph.Op("conv/floor", "Floor", {"conv"});
    graph.Pool("first", is_split ? "conv" : "conv/floor", 2, 2);
    graph.Fetch(graph.Pool("second", "first", 2, 2));
    const Partition partition =
        PartitionOf(graph, {DataType::kBFloat16, {"conv"}});
    EXPECT(partition.regions.size() == (is_split ? 2 : 1));
  }
}

TEST(PrecisionsHaveNames) {
  SetComputesBFloat16(false);
  EXPECT(!PrecisionFromString("bfloat16").ok());
  EXPECT(PrecisionFromString("auto")->dtype == DataType::kFloat32);
  SetComputesBFloat16(true);
  EXPECT(PrecisionFromString("bfloat16")->dtype == DataType::kBFloat16);
  EXPECT(PrecisionFromString("auto")->dtype == DataType::kBFloat16);
  EXPECT(PrecisionFromString("float32")->dtype == DataType::kFloat32);
  EXPECT(!PrecisionFromString("float16").ok());
}

}  // namespace
}  // namespace ios::tf
