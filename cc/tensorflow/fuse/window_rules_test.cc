// Tests each rule of window_rules.cc.
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using Types = std::vector<OperatorType>;
using Pair = std::array<int64_t, 2>;

bool Pads(const Operator& op, std::array<int64_t, 4> cells) {
  const Padding& p = op.padding;
  return p.type == PaddingType::kExplicit &&
         std::array<int64_t, 4>{p.top, p.bottom, p.left, p.right} == cells;
}

TEST(PadsInARowAreOne) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pad("first", "image", {1, 2, 3, 4});
  graph.Fetch(graph.Pad("second", "first", {10, 20, 30, 40}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(ComposePads) == 1);
  EXPECT(imported.Types() == Types{OperatorType::kPad});
  EXPECT(Pads(imported.At(0).op, {11, 22, 33, 44}));
}

TEST(CellsThatWereCutDoNotComeBack) {
  TestGraph graph({1, 8, 8, 3});
  const std::string from = graph.Integers("from", {4}, {0, 1, 0, 0});
  const std::string size = graph.Integers("size", {4}, {-1, 7, 8, 3});
  graph.Add(graph.Builder("cut", "Slice",
                          {{"image"},
                           {from, ::tensorflow::DT_INT32},
                           {size, ::tensorflow::DT_INT32}}));
  graph.Fetch(graph.Pad("pad", "cut", {1, 0, 0, 0}));
  ImportedGraph imported(graph);
  const int all = imported.size();
  EXPECT(imported.Apply(ComposePads) == 0 && imported.size() == all);
}

TEST(PaddingGoesIntoTheConvolution) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pad("pad", "image", {1, 2, 3, 4});
  graph.Fetch(graph.Convolution("conv", "pad", 3, 3, 4, 2, "VALID"));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldPad) == 1);
  EXPECT(imported.Types() == Types{OperatorType::kConv2D});
  EXPECT(Pads(imported.At(0).op, {1, 2, 3, 4}));
}

TEST(PaddingOfOneSizeOnlyStaysBeforeAStride) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pad("pad", "image", {1, 1, 1, 1});
  graph.Fetch(graph.Convolution("conv", "pad", 3, 3, 4, 2, "SAME"));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldPad) == 0);
}

TEST(PaddingGoesIntoAMaximumOfWhatIsNotNegative) {
  for (const bool relu : {false, true}) {
    TestGraph graph({1, 8, 8, 3});
    const std::string input =
        relu ? graph.Op("relu", "Relu", {"image"}) : "image";
    graph.Pad("pad", input, {1, 1, 1, 1});
    graph.Fetch(graph.Pool("pool", "pad", 3, 2));
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(FoldPad) == (relu ? 1 : 0));
    EXPECT(!relu || imported.At(imported.size() - 1).op.pads_zeros);
  }
}

TEST(PaddingStaysIfAWindowLiesInIt) {
  TestGraph graph({1, 8, 8, 3});
  graph.Op("relu", "Relu", {"image"});
  graph.Pad("pad", "relu", {3, 0, 0, 0});
  graph.Fetch(graph.Pool("pool", "pad", 3, 2));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldPad) == 0);
}

TEST(SubsamplingIsTheStrideOfThePointwiseConvolutionsAfterIt) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pool("pool", "image", 1, 2, "AvgPool");
  graph.Fetch(graph.Convolution("left", "pool", 1, 3, 4));
  graph.Fetch(graph.Convolution("right", "pool", 1, 3, 5));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldSubsampling) == 1);
  EXPECT(imported.Types() ==
         (Types{OperatorType::kConv2D, OperatorType::kConv2D}));
  for (int k : {0, 1}) EXPECT(imported.At(k).op.strides == (Pair{2, 2}));
}

TEST(SubsamplingStaysBeforeALargerWindow) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pool("pool", "image", 1, 2, "AvgPool");
  graph.Fetch(graph.Convolution("conv", "pool", 3, 3, 4));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldSubsampling) == 0);
}

TEST(SubsamplingByAMaximumStays) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pool("pool", "image", 1, 2, "MaxPool");
  graph.Fetch(graph.Convolution("conv", "pool", 1, 3, 4));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldSubsampling) == 0);
}

TEST(CutsStayBeforeSubsampling) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pad("pad", "image", {0, 1, 0, 1});
  const std::string from = graph.Integers("from", {4}, {0, 1, 1, 0});
  const std::string size = graph.Integers("size", {4}, {-1, 8, 8, 3});
  graph.Add(graph.Builder("cut", "Slice",
                          {{"pad"},
                           {from, ::tensorflow::DT_INT32},
                           {size, ::tensorflow::DT_INT32}}));
  graph.Pool("pool", "cut", 1, 2, "AvgPool");
  graph.Fetch(graph.Convolution("conv", "pool", 1, 3, 4));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(ComposePads) == 1);
  EXPECT(imported.Apply(FoldSubsampling) == 1);
  EXPECT(imported.Types() ==
         (Types{OperatorType::kPad, OperatorType::kConv2D}));
  EXPECT(imported.At(1).op.strides == (Pair{2, 2}));
}

TEST(RepeatsInARowAreOne) {
  TestGraph graph({1, 8, 8, 3});
  graph.Op("first", "Relu", {"image"});
  graph.Op("second", "Relu", {"first"});
  graph.Fetch(graph.Op("third", "Relu", {"second"}));
  ImportedGraph imported(graph);
  OperatorGraph& ops = imported.operators();
  for (int i : {0, 1, 2}) {
    ops[i].op.type = OperatorType::kResize;
    ops[i].op.interpolation = Interpolation::kNearest;
    ops[i].op.coordinates = Coordinates::kHalfPixel;
    ops[i].op.factors = {2, i + 1};
  }
  ops[2].op.interpolation = Interpolation::kBilinear;
  EXPECT(imported.Apply(ComposeRepeats) == 1);
  EXPECT(imported.size() == 2);
  EXPECT(imported.At(0).op.factors == (Pair{4, 2}));
  EXPECT(imported.At(1).op.factors == (Pair{2, 3}));
}

// Adds nodes that compute the mean of the image and repeat it in every pixel of
// a feature map.
std::string SpreadMean(TestGraph* graph) {
  graph->Mean("mean", "image", /*keep_dims=*/true);
  const std::string size = graph->Integers("size", {2}, {8, 8});
  graph->Add(graph->Builder("spread", "ResizeNearestNeighbor",
                            {{"mean"}, {size, ::tensorflow::DT_INT32}}));
  return "spread";
}

TEST(CellThatIsSpreadOverAnImageIsBroadcast) {
  for (const std::string op : {"Mul", "AddV2"}) {
    TestGraph graph({1, 8, 8, 3});
    graph.Fetch(graph.Op("y", op, {"image", SpreadMean(&graph)}));
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(DropSpread) == 1);
    EXPECT(imported.Types() ==
           (Types{OperatorType::kGlobalPool, OperatorType::kBinary}));
    const ImportedOperator& last = imported.At(1);
    EXPECT(last.op.function ==
           (op == "Mul" ? BinaryFunction::kMultiply : BinaryFunction::kAdd));
    EXPECT(imported.graph().Name(last.inputs[0]) == "image");
    EXPECT(imported.graph().Name(last.inputs[1]) == "mean");
  }
}

TEST(ChannelThatIsSpreadOverSeveralIsBroadcast) {
  for (const float factor : {1.0f, 2.0f}) {
    TestGraph graph({1, 8, 8, 3});
    graph.Convolution("one", "image", 1, 3, 1);
    const std::string by = graph.Floats("by", {1, 1, 1, 3}, {1, 1, factor});
    graph.Op("spread", "Mul", {"one", by});
    graph.Fetch(graph.Op("y", "Mul", {"image", "spread"}));
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(DropSpread) == (factor == 1.0f ? 1 : 0));
    if (factor != 1.0f) continue;
    EXPECT(imported.Types() ==
           (Types{OperatorType::kConv2D, OperatorType::kBinary}));
    EXPECT(imported.graph().Name(imported.At(1).inputs[1]) == "one");
  }
}

TEST(SpreadCellStaysWhereItIsReadAsAnImage) {
  TestGraph graph({1, 8, 8, 3});
  graph.Fetch(graph.Op("y", "Mul", {"image", SpreadMean(&graph)}));
  graph.Fetch(graph.Convolution("conv", "spread", 3, 3, 4));
  EXPECT(ImportedGraph(graph).Apply(DropSpread) == 0);
}

TEST(OnePaddingIsWrittenInOneWay) {
  TestGraph graph({1, 8, 8, 3});
  graph.Fetch(graph.Convolution("conv", "image", 3, 3, 4));
  ImportedGraph imported(graph);
  Operator& op = imported.operators()[0].op;
  op.kernel = {3, 5};
  op.padding = {PaddingType::kExplicit, 1, 1, 2, 2};
  EXPECT(imported.Apply(NormalisePadding) == 1);
  EXPECT(op.padding.type == PaddingType::kSame);
  op.strides = {2, 2};  // SAME depends on the image's size
  op.padding = {PaddingType::kExplicit, 1, 1, 2, 2};
  EXPECT(imported.Apply(NormalisePadding) == 0);
  EXPECT(Pads(op, {1, 1, 2, 2}));
  op.padding = {PaddingType::kExplicit, 0, 0, 0, 0};
  EXPECT(imported.Apply(NormalisePadding) == 1);
  EXPECT(op.padding.type == PaddingType::kValid);
  op.kernel = {1, 1};
  op.padding = Padding();
  op.padding.type = PaddingType::kSame;
  EXPECT(imported.Apply(NormalisePadding) == 1);
  EXPECT(op.padding.type == PaddingType::kValid);
}

}  // namespace
}  // namespace ios::tf
