// Tests each rule of reshape_rules.cc.
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using Types = std::vector<OperatorType>;

std::string MatMul(TestGraph* graph, const std::string& name,
                   const std::string& input, int channels, int filters) {
  const std::string weights =
      graph->Floats(name + "/weights", {channels, filters});
  return graph->Op(name, "MatMul", {input, weights});
}

TEST(DenseOfMapsIsAPointwiseConvolution) {
  TestGraph graph({2, 4, 5, 3});
  graph.Reshape("rows", "image", {40, 3});
  MatMul(&graph, "dense", "rows", 3, 6);
  graph.Fetch(graph.Reshape("maps", "dense", {2, 4, 5, 6}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(KeepMaps) == 1);
  EXPECT(imported.Types() == Types{OperatorType::kConv2D});
  EXPECT(imported.At(0).op.filters == 6);
}

TEST(DenseOfOtherRowsStays) {
  TestGraph graph({2, 4, 5, 3});
  graph.Reshape("rows", "image", {20, 6});
  MatMul(&graph, "dense", "rows", 6, 6);
  graph.Fetch(graph.Reshape("maps", "dense", {2, 2, 5, 6}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(KeepMaps) == 0);
}

TEST(SqueezeAndExciteKeepsItsDimensions) {
  for (const bool fetched : {false, true}) {
    TestGraph graph({1, 8, 8, 3});
    graph.Mean("mean", "image", false);
    MatMul(&graph, "dense", "mean", 3, 5);
    graph.Op("relu", "Relu", {"dense"});
    MatMul(&graph, "back", "relu", 5, 3);
    graph.Fetch(graph.Reshape("maps", "back", {1, 1, 1, 3}));
    if (fetched) graph.Fetch("dense");
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(KeepDims) == (fetched ? 0 : 1));
    if (fetched) continue;
    EXPECT(imported.Types() ==
           (Types{OperatorType::kGlobalPool, OperatorType::kConv2D,
                  OperatorType::kActivation, OperatorType::kConv2D}));
    EXPECT(imported.At(0).op.keep_dims);
  }
}

TEST(MatMulReadsTheMapsThemselves) {
  TestGraph graph({2, 4, 5, 3});
  graph.Reshape("flat", "image", {2, 60});
  graph.Fetch(MatMul(&graph, "dense", "flat", 60, 7));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FlattenIntoMatMul) == 1);
  EXPECT(imported.Types() == Types{OperatorType::kMatMul});
  EXPECT(imported.At(0).op.kernel == (std::array<int64_t, 2>{4, 5}));
}

TEST(FlattenedMapsThatOthersReadStay) {
  TestGraph graph({2, 4, 5, 3});
  graph.Fetch(graph.Reshape("flat", "image", {2, 60}));
  graph.Fetch(MatMul(&graph, "dense", "flat", 60, 7));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FlattenIntoMatMul) == 0);
}

TEST(SqueezedCellIsItsMean) {
  TestGraph graph({2, 4, 5, 3});
  graph.Mean("mean", "image", true);
  graph.Reshape("squeezed", "mean", {2, 3});
  graph.Fetch(MatMul(&graph, "dense", "squeezed", 3, 7));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FinishReshape) == 1);
  EXPECT(imported.Types() ==
         (Types{OperatorType::kGlobalPool, OperatorType::kGlobalPool,
                OperatorType::kMatMul}));
  EXPECT(!imported.At(1).op.keep_dims);
}

}  // namespace
}  // namespace ios::tf
