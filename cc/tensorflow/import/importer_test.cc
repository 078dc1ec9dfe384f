// Tests which operators the importer creates from single nodes, one family of
// handlers after the other. tests/integration checks that these operators
// compute the same as the nodes.
#include "cc/tensorflow/import/importer.h"

#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using ::tensorflow::DT_FLOAT;
using ::tensorflow::DT_INT32;
using Types = std::vector<OperatorType>;
using Pair = std::array<int64_t, 2>;

// Returns the only operator of a graph.
ImportedOperator Only(const TestGraph& graph) {
  const ImportedGraph imported(graph);
  EXPECT(imported.size() == 1);
  return imported.size() == 1 ? imported.At(0) : ImportedOperator();
}

// Convolutions and products.

TEST(Convolutions) {
  TestGraph graph({1, 9, 8, 4});
  graph.Add(
      graph
          .Builder("conv", "Conv2D",
                   {{"image"}, {graph.Floats("f", {3, 5, 2, 6})}})
          .Attr("strides", TestGraph::Sizes{1, 2, 3, 1})
          .Attr("padding", "EXPLICIT")
          .Attr("explicit_paddings", TestGraph::Sizes{0, 0, 1, 2, 3, 4, 0, 0}));
  graph.Fetch("conv");
  const ImportedOperator imported = Only(graph);
  const Operator& op = imported.op;
  EXPECT(op.type == OperatorType::kConv2D && op.filters == 6);
  EXPECT(op.groups == 2);  // each filter reads two of four channels
  EXPECT(op.kernel == (Pair{3, 5}) && op.strides == (Pair{2, 3}));
  EXPECT(op.padding.type == PaddingType::kExplicit);
  EXPECT(op.padding.top == 1 && op.padding.bottom == 2);
  EXPECT(op.padding.left == 3 && op.padding.right == 4);
  EXPECT(imported.weights.size() == 1 && !op.bias);
}

TEST(DepthwiseConvolutions) {
  TestGraph graph({1, 9, 8, 4});
  graph.Fetch(graph.Convolution("conv", "image", 3, 4, 2, 1, "SAME",
                                "DepthwiseConv2dNative"));
  const ImportedOperator imported = Only(graph);
  EXPECT(imported.op.type == OperatorType::kConv2D);
  EXPECT(imported.op.groups == 4 && imported.op.filters == 8);
}

TEST(FiltersThatAreComputedAreNoWeights) {
  TestGraph graph({3, 3, 4, 4});
  graph.Add(graph.Builder("conv", "Conv2D", {{"image"}, {"image"}})
                .Attr("strides", TestGraph::Sizes{1, 1, 1, 1})
                .Attr("padding", "SAME"));
  graph.Fetch("conv");
  EXPECT(ImportedGraph(graph).size() == 0);
}

TEST(ConvolutionsThatMakeNoSteps) {
  TestGraph graph({1, 9, 8, 4});
  graph.Add(graph
                .Builder("conv", "Conv2D",
                         {{"image"}, {graph.Floats("f", {1, 1, 4, 4})}})
                .Attr("strides", TestGraph::Sizes{1, 0, 1, 1})
                .Attr("padding", "SAME"));
  graph.Fetch("conv");
  auto analyzed = AnalyzedGraph::Create(graph.item(), 1, kUsualImageSize);
  // TensorFlow either refuses the invalid graph, or leaves the node without a
  // shape.
  EXPECT(!analyzed.ok() ||
         !(*analyzed)->shapes().shape({(*analyzed)->graph().Find("conv"), 0}));
}

TEST(TransposedConvolutions) {
  TestGraph graph({1, 4, 5, 3});
  const std::string size = graph.Integers("size", {4}, {1, 8, 10, 6});
  graph.Add(
      graph
          .Builder(
              "up", "Conv2DBackpropInput",
              {{size, DT_INT32}, {graph.Floats("f", {2, 2, 6, 3})}, {"image"}})
          .Attr("T", DT_FLOAT)
          .Attr("strides", TestGraph::Sizes{1, 2, 2, 1})
          .Attr("padding", "SAME"));
  graph.Fetch("up");
  const ImportedOperator imported = Only(graph);
  EXPECT(imported.op.type == OperatorType::kConv2DTranspose);
  EXPECT(imported.op.filters == 6 && imported.op.strides == (Pair{2, 2}));
}

// Elementwise operators and scales.

TEST(ArithmeticByNumbersOfChannelsIsAScale) {
  const std::vector<float> numbers = {1, 2, 4};
  const std::pair<const char*, std::array<std::vector<float>, 2>> kCases[] = {
      {"Mul", {{{1, 2, 4}, {0, 0, 0}}}},
      {"AddV2", {{{1, 1, 1}, {1, 2, 4}}}},
      {"Sub", {{{1, 1, 1}, {-1, -2, -4}}}},
      {"RealDiv", {{{1, 0.5f, 0.25f}, {0, 0, 0}}}},
      {"BiasAdd", {{{1, 1, 1}, {1, 2, 4}}}},
  };
  for (const auto& [op, wanted] : kCases) {
    TestGraph graph({1, 8, 8, 3});
    graph.Fetch(graph.Op("y", op, {"image", graph.Floats("by", {3}, numbers)}));
    const ImportedOperator imported = Only(graph);
    EXPECT(imported.op.type == OperatorType::kScale);
    EXPECT(imported.weights.size() == 2);
    for (size_t k = 0; k < imported.weights.size(); ++k) {
      EXPECT(imported.weights[k].values == wanted[k]);
    }
  }
}

TEST(NumbersOfRowsAreNoScale) {
  TestGraph graph({1, 3, 8, 3});
  graph.Fetch(graph.Op("y", "Mul",
                       {"image", graph.Floats("by", {3, 1, 1}, {1, 2, 4})}));
  const ImportedGraph imported(graph);
  for (int k = 0; k < imported.size(); ++k) {
    EXPECT(imported.At(k).op.type != OperatorType::kScale);
  }
}

TEST(BatchNormsAreScales) {
  TestGraph graph({1, 8, 8, 2});
  const std::string gamma = graph.Floats("gamma", {2}, {2, 3});
  const std::string beta = graph.Floats("beta", {2}, {5, 7});
  const std::string mean = graph.Floats("mean", {2}, {1, -1});
  const std::string variance = graph.Floats("variance", {2}, {4, 16});
  graph.Add(graph
                .Builder("norm", "FusedBatchNormV3",
                         {{"image"}, {gamma}, {beta}, {mean}, {variance}})
                .Attr("epsilon", 0.0f)
                .Attr("is_training", false));
  graph.Fetch(graph.Op("y", "Identity", {"norm"}));
  const ImportedOperator imported = Only(graph);
  EXPECT(imported.op.type == OperatorType::kScale);
  // The scale is gamma / sqrt(variance); the shift is beta - mean * scale.
  EXPECT(imported.weights[0].values == (std::vector<float>{1, 0.75f}));
  EXPECT(imported.weights[1].values == (std::vector<float>{4, 7.75f}));
}

TEST(SumsAndProductsOfTensors) {
  TestGraph graph({1, 8, 8, 2});
  graph.Op("relu", "Relu", {"image"});
  graph.Op("sum", "AddV2", {"image", "relu"});
  graph.Fetch(graph.Op("product", "Mul", {"sum", "relu"}));
  const ImportedGraph imported(graph);
  EXPECT(imported.Types() ==
         (Types{OperatorType::kActivation, OperatorType::kAdd,
                OperatorType::kBinary}));
}

TEST(FunctionsOfOneTensorAreActivations) {
  const std::pair<const char*, Activation> kFunctions[] = {
      {"Relu", Activation::kRelu},       {"Tanh", Activation::kTanh},
      {"Sigmoid", Activation::kSigmoid}, {"Elu", Activation::kElu},
      {"Exp", Activation::kExp},         {"Erf", Activation::kErf},
  };
  for (const auto& [op, activation] : kFunctions) {
    TestGraph graph({1, 8, 8, 2});
    graph.Fetch(graph.Op("y", op, {"image"}));
    EXPECT(Only(graph).op.activation == activation);
  }
}

// Norms.

// Adds nodes that compute a norm as Keras writes it: (x - mean) * scale /
// sqrt(variance + 0.5) + shift.
std::string Norm(TestGraph* graph, const std::string& x,
                 const std::vector<int32_t>& axes, const std::string& scale,
                 const std::string& shift) {
  const std::string over =
      graph->Integers("axes", {static_cast<int64_t>(axes.size())}, axes);
  const auto mean = [&](const std::string& name, const std::string& of) {
    graph->Add(graph->Builder(name, "Mean", {{of}, {over, DT_INT32}})
                   .Attr("keep_dims", true));
  };
  mean("mean", x);
  graph->Op("squares", "SquaredDifference", {x, "mean"});
  mean("variance", "squares");
  graph->Op("sum", "AddV2", {"variance", graph->Floats("epsilon", {})});
  graph->Op("root", "Rsqrt", {"sum"});
  graph->Op("factor", "Mul", {"root", scale});
  graph->Op("product", "Mul", {x, "factor"});
  graph->Op("moved", "Mul", {"mean", "factor"});
  graph->Op("rest", "Sub", {shift, "moved"});
  return graph->Op("y", "AddV2", {"product", "rest"});
}

// Returns the operator that computes the output of this node. (Before
// DropUnread removes them, other operators exist that compute intermediate
// values.)
ImportedOperator Of(const TestGraph& graph, const std::string& name) {
  const ImportedGraph imported(graph);
  for (int k = 0; k < imported.size(); ++k) {
    if (imported.graph().Name(imported.At(k).output) == name) {
      return imported.At(k);
    }
  }
  EXPECT(!"there is no such operator");
  return ImportedOperator();
}

TEST(NormsOfPixelsImagesAndChannels) {
  struct Case {
    std::vector<int32_t> axes;
    bool per_image;
    int64_t groups;
  };
  const Case kCases[] = {
      {{3}, false, 1}, {{1, 2, 3}, true, 1}, {{1, 2}, true, 4}};
  for (const Case& c : kCases) {
    TestGraph graph({1, 9, 8, 4});
    graph.Fetch(Norm(&graph, "image", c.axes,
                     graph.Floats("scale", {4}, {1, 2, 3, 4}),
                     graph.Floats("shift", {4}, {5, 6, 7, 8})));
    const ImportedOperator imported = Of(graph, "y");
    EXPECT(imported.op.type == OperatorType::kNormalize);
    EXPECT(imported.op.per_image == c.per_image);
    EXPECT(imported.op.groups == c.groups && imported.op.epsilon == 0.5f);
    EXPECT(imported.weights.size() == 2);
    EXPECT(imported.weights[0].values == (std::vector<float>{1, 2, 3, 4}));
    EXPECT(imported.weights[1].values == (std::vector<float>{5, 6, 7, 8}));
  }
}

TEST(NormsOfRowsAreNone) {
  TestGraph graph({1, 9, 8, 4});
  graph.Fetch(Norm(&graph, "image", {2}, graph.Floats("scale", {4}),
                   graph.Floats("shift", {4})));
  const ImportedGraph imported(graph);
  for (int k = 0; k < imported.size(); ++k) {
    EXPECT(imported.At(k).op.type != OperatorType::kNormalize);
  }
}

TEST(NormsOfGroups) {
  TestGraph graph({1, 9, 8, 4});
  graph.Reshape("grouped", "image", {1, 9, 8, 2, 2});
  Norm(&graph, "grouped", {1, 2, 4},
       graph.Floats("scale", {2, 2}, {1, 2, 3, 4}),
       graph.Floats("shift", {2, 2}, {5, 6, 7, 8}));
  graph.Fetch(graph.Reshape("flat", "y", {1, 9, 8, 4}));
  const ImportedOperator imported = Of(graph, "flat");
  EXPECT(imported.op.type == OperatorType::kNormalize);
  EXPECT(imported.op.per_image && imported.op.groups == 2);
  EXPECT(imported.weights[0].values == (std::vector<float>{1, 2, 3, 4}));
  EXPECT(imported.weights[1].values == (std::vector<float>{5, 6, 7, 8}));
}

TEST(ShufflesOfChannels) {
  for (const bool channels : {false, true}) {
    TestGraph graph({1, 8, 8, 6});
    graph.Reshape("grouped", "image", {1, 8, 8, 3, 2});
    const std::string order =
        graph.Integers("order", {5},
                       channels ? std::vector<int32_t>{0, 1, 2, 4, 3}
                                : std::vector<int32_t>{0, 2, 1, 3, 4});
    graph.Add(
        graph.Builder("turned", "Transpose", {{"grouped"}, {order, DT_INT32}}));
    graph.Fetch(graph.Reshape("y", "turned", {1, 8, 8, 6}));
    if (!channels) {
      EXPECT(ImportedGraph(graph).size() == 0);
      continue;
    }
    const ImportedOperator imported = Only(graph);
    EXPECT(imported.op.type == OperatorType::kChannelShuffle);
    EXPECT(imported.op.groups == 3);
  }
}

// Windows and reductions.

TEST(Pools) {
  for (const bool mean : {false, true}) {
    TestGraph graph({1, 9, 8, 3});
    graph.Add(graph.Builder("pool", mean ? "AvgPool" : "MaxPool", {{"image"}})
                  .Attr("ksize", TestGraph::Sizes{1, 3, 2, 1})
                  .Attr("strides", TestGraph::Sizes{1, 2, 1, 1})
                  .Attr("padding", "SAME"));
    graph.Fetch("pool");
    const Operator op = Only(graph).op;
    EXPECT(op.type == OperatorType::kPool);
    EXPECT(op.pool == (mean ? PoolKind::kAvg : PoolKind::kMax));
    EXPECT(op.kernel == (Pair{3, 2}) && op.strides == (Pair{2, 1}));
  }
}

TEST(MeansOfImages) {
  for (const bool keep_dims : {false, true}) {
    TestGraph graph({1, 9, 8, 3});
    graph.Fetch(graph.Mean("mean", "image", keep_dims));
    const Operator op = Only(graph).op;
    EXPECT(op.type == OperatorType::kGlobalPool && op.keep_dims == keep_dims);
  }
}

TEST(WindowsOverChannelsAreTensorFlows) {
  TestGraph graph({1, 8, 8, 4});
  graph.Add(graph.Builder("pool", "MaxPool", {{"image"}})
                .Attr("ksize", TestGraph::Sizes{1, 1, 1, 2})
                .Attr("strides", TestGraph::Sizes{1, 1, 1, 2})
                .Attr("padding", "VALID"));
  graph.Fetch("pool");
  EXPECT(ImportedGraph(graph).size() == 0);
}

// Parts of tensors.

TEST(SplitsAreSlices) {
  TestGraph graph({1, 8, 8, 6});
  const std::string axis = graph.Integers("axis", {}, {3});
  graph.Add(graph.Builder("split", "Split", {{axis, DT_INT32}, {"image"}})
                .Attr("T", DT_FLOAT)
                .Attr("num_split", 3));
  graph.Add(TestGraph::NodeDefBuilder("sum", "AddV2")
                .Input("split", 0, DT_FLOAT)
                .Input("split", 2, DT_FLOAT));
  graph.Fetch("sum");
  const ImportedGraph imported(graph);
  std::vector<int64_t> offsets;
  for (int k = 0; k < imported.size(); ++k) {
    const Operator& op = imported.At(k).op;
    if (op.type != OperatorType::kSlice) continue;
    EXPECT(op.size == 2);
    offsets.push_back(op.offset);
  }
  EXPECT(offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == 4);
}

TEST(ConcatsAreAlongChannels) {
  TestGraph graph({1, 8, 8, 3});
  graph.Fetch(graph.Concat("channels", {"image", "image"}));
  const std::string rows = graph.Integers("rows/axis", {}, {1});
  graph.Add(TestGraph::NodeDefBuilder("rows", "ConcatV2")
                .Input(std::vector<TestGraph::NodeDefBuilder::NodeOut>{
                    {"image", 0, DT_FLOAT}, {"image", 0, DT_FLOAT}})
                .Input(rows, 0, DT_INT32));
  graph.Fetch("rows");
  const ImportedGraph imported(graph);
  EXPECT(imported.Types() == Types{OperatorType::kConcat});
  EXPECT(imported.graph().Name(imported.At(0).output) == "channels");
}

TEST(PadsOfImages) {
  TestGraph graph({1, 8, 8, 3});
  graph.Fetch(graph.Pad("pad", "image", {1, 2, 3, 4}));
  const Padding p = Only(graph).op.padding;
  EXPECT(p.top == 1 && p.bottom == 2 && p.left == 3 && p.right == 4);
}

// Sizes of images.

TEST(Resizes) {
  TestGraph graph({1, 8, 9, 3});
  const std::string size = graph.Integers("size", {2}, {5, 17});
  graph.Add(
      graph.Builder("resize", "ResizeBilinear", {{"image"}, {size, DT_INT32}})
          .Attr("half_pixel_centers", true));
  graph.Fetch("resize");
  const Operator op = Only(graph).op;
  EXPECT(op.type == OperatorType::kResize);
  EXPECT(op.interpolation == Interpolation::kBilinear);
  EXPECT(op.coordinates == Coordinates::kHalfPixel);
}

TEST(CellsAndChannels) {
  for (const bool to_depth : {false, true}) {
    TestGraph graph({1, 8, 8, 4});
    graph.Add(graph
                  .Builder("moved", to_depth ? "SpaceToDepth" : "DepthToSpace",
                           {{"image"}})
                  .Attr("block_size", 2));
    graph.Fetch("moved");
    EXPECT(Only(graph).op.type == (to_depth ? OperatorType::kSpaceToDepth
                                            : OperatorType::kDepthToSpace));
  }
}

}  // namespace
}  // namespace ios::tf
