// Tests each rule that folds other operators into convolutions or sums.
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using Types = std::vector<OperatorType>;

std::string Scaled(TestGraph* graph, const std::string& name,
                   const std::string& input, const std::vector<float>& factors,
                   const std::vector<float>& shifts) {
  const int64_t channels = factors.size();
  const std::string by =
      graph->Floats(name + "/factors", {1, 1, 1, channels}, factors);
  graph->Op(name + "/scaled", "Mul", {input, by});
  const std::string to =
      graph->Floats(name + "/shifts", {1, 1, 1, channels}, shifts);
  return graph->Op(name, "AddV2", {name + "/scaled", to});
}

TEST(ScalesInARowAreOne) {
  TestGraph graph({1, 8, 8, 2});
  graph.Fetch(Scaled(&graph, "scale", "image", {2, 3}, {4, 5}));
  ImportedGraph imported(graph);
  EXPECT(imported.Types() ==
         (Types{OperatorType::kScale, OperatorType::kScale}));
  EXPECT(imported.Apply(ComposeScales) == 1);
  EXPECT(imported.size() == 1);
  EXPECT(imported.At(0).weights[0].values == (std::vector<float>{2, 3}));
  EXPECT(imported.At(0).weights[1].values == (std::vector<float>{4, 5}));
  EXPECT(imported.graph().node(imported.At(0).output.node).name() == "scale");
}

TEST(ScalesWithALargeShiftBetweenThemStay) {
  TestGraph graph({1, 8, 8, 2});
  const std::string moved = Scaled(&graph, "moved", "image", {1, 1}, {-120, 0});
  graph.Fetch(Scaled(&graph, "scaled", moved, {2, 2}, {0, 0}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(ComposeScales) == 2);
  EXPECT(imported.size() == 2);
  EXPECT(imported.At(0).weights[1].values == (std::vector<float>{-120, 0}));
  EXPECT(imported.At(1).weights[0].values == (std::vector<float>{2, 2}));
}

TEST(DepthwiseAndPointwiseConvolutionAreOne) {
  for (const bool fetched : {false, true}) {
    TestGraph graph({1, 8, 8, 3});
    graph.Convolution("depthwise", "image", 3, 3, 2, 1, "SAME",
                      "DepthwiseConv2dNative");
    graph.Fetch(graph.Convolution("pointwise", "depthwise", 1, 6, 4));
    if (fetched) graph.Fetch("depthwise");
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(FuseSepConv) == (fetched ? 0 : 1));
    if (fetched) continue;
    EXPECT(imported.Types() == Types{OperatorType::kSepConv});
    const ImportedOperator& op = imported.At(0);
    EXPECT(op.op.multiplier == 2 && op.op.filters == 4 && op.op.groups == 1);
    EXPECT(op.weights.size() == 2 && op.op.name == "pointwise");
  }
}

TEST(PointwiseConvolutionThatMovesStaysAfterADepthwiseOne) {
  TestGraph graph({1, 8, 8, 3});
  graph.Convolution("depthwise", "image", 3, 3, 1, 1, "SAME",
                    "DepthwiseConv2dNative");
  graph.Fetch(graph.Convolution("pointwise", "depthwise", 1, 3, 4, 2));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FuseSepConv) == 0);
}

TEST(ScaleGoesIntoTheWeights) {
  TestGraph graph({1, 8, 8, 3});
  graph.Convolution("conv", "image", 1, 3, 2);
  graph.Fetch(Scaled(&graph, "norm", "conv", {2, 4}, {7, -1}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldScale) == 2);
  EXPECT(imported.Types() == Types{OperatorType::kConv2D});
  const ImportedOperator& op = imported.At(0);
  EXPECT(op.op.bias && op.weights.size() == 2);
  // All weights were 0.5 before the scale was folded. The last dimension is
  // that of the filters.
  EXPECT(op.weights[0].values == (std::vector<float>{1, 2, 1, 2, 1, 2}));
  EXPECT(op.weights[1].values == (std::vector<float>{7, -1}));
}

TEST(ScaleStaysIfOthersReadTheConvolution) {
  TestGraph graph({1, 8, 8, 3});
  graph.Convolution("conv", "image", 1, 3, 2);
  graph.Fetch(Scaled(&graph, "norm", "conv", {2, 4}, {7, -1}));
  graph.Fetch(graph.Op("other", "Relu", {"conv"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldScale) == 0);
}

TEST(SumGoesIntoTheConvolutionThatNeedsTheOtherOperandAnyway) {
  TestGraph graph({1, 8, 8, 3});
  graph.Convolution("first", "image", 3, 3, 4);
  graph.Convolution("second", "first", 3, 4, 4);
  graph.Fetch(graph.Op("sum", "AddV2", {"first", "second"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldResidual) == 1);
  EXPECT(imported.Types() ==
         (Types{OperatorType::kConv2D, OperatorType::kConv2D}));
  EXPECT(!imported.At(0).op.residual && imported.At(1).op.residual);
  EXPECT(imported.At(1).inputs.size() == 2);
  EXPECT(imported.At(1).inputs[1] == imported.At(0).output);
}

TEST(SumOfConvolutionsThatMayRunTogetherStays) {
  TestGraph graph({1, 8, 8, 3});
  graph.Convolution("left", "image", 3, 3, 4);
  graph.Convolution("right", "image", 1, 3, 4);
  graph.Fetch(graph.Op("sum", "AddV2", {"left", "right"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldResidual) == 0);
  EXPECT(imported.size() == 3);
}

TEST(ConcatsAndSumsOfTheirKindAreOne) {
  TestGraph graph({1, 8, 8, 3});
  graph.Concat("inner", {"image", "image"});
  graph.Fetch(graph.Concat("outer", {"image", "inner"}));
  graph.Op("some", "AddV2", {"image", "image"});
  graph.Fetch(graph.Op("all", "AddV2", {"some", "image"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(Flatten) == 2);
  EXPECT(imported.size() == 2);
  for (int k : {0, 1}) {
    const std::vector<TensorRef>& inputs = imported.At(k).inputs;
    EXPECT(inputs.size() == 3);
    EXPECT(inputs == std::vector<TensorRef>(3, inputs[0]));
  }
}

TEST(ConcatThatIsAskedForStays) {
  TestGraph graph({1, 8, 8, 3});
  graph.Fetch(graph.Concat("inner", {"image", "image"}));
  graph.Fetch(graph.Concat("outer", {"image", "inner"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(Flatten) == 0);
}

}  // namespace
}  // namespace ios::tf
