// Tests each rule that finds activations or folds them into neighboring
// operators.
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using Types = std::vector<OperatorType>;

TEST(CompositionsAreTheActivationsThatTheyAre) {
  TestGraph graph({1, 8, 8, 3});
  graph.Op("sigmoid", "Sigmoid", {"image"});
  graph.Fetch(graph.Op("swish", "Mul", {"image", "sigmoid"}));
  const std::string three = graph.Floats("three", {}, {3});
  const std::string sixth = graph.Floats("sixth", {}, {1.0f / 6});
  graph.Op("moved", "AddV2", {"image", three});
  graph.Op("relu6", "Relu6", {"moved"});
  graph.Fetch(graph.Op("hard", "Mul", {"relu6", sixth}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FuseActivation) == 2);
  EXPECT(imported.Types() == Types(2, OperatorType::kActivation));
  EXPECT(imported.At(0).op.activation == Activation::kSwish);
  EXPECT(imported.At(1).op.activation == Activation::kHardSigmoid);
}

TEST(CompositionsThatAreAlmostOneStay) {
  TestGraph graph({1, 8, 8, 3});
  const std::string little = graph.Floats("little", {}, {0.01f});
  graph.Op("moved", "AddV2", {"image", little});
  graph.Op("sigmoid", "Sigmoid", {"moved"});
  graph.Fetch(graph.Op("product", "Mul", {"image", "sigmoid"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FuseActivation) == 0);
}

TEST(CompositionWhosePartIsAskedForStays) {
  TestGraph graph({1, 8, 8, 3});
  graph.Fetch(graph.Op("sigmoid", "Sigmoid", {"image"}));
  graph.Fetch(graph.Op("swish", "Mul", {"image", "sigmoid"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FuseActivation) == 0);
}

TEST(ActivationGoesIntoTheConvolution) {
  for (const bool fetched : {false, true}) {
    TestGraph graph({1, 8, 8, 3});
    graph.Convolution("conv", "image", 3, 3, 4);
    graph.Fetch(graph.Op("relu", "Relu", {"conv"}));
    if (fetched) graph.Fetch("conv");
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(FoldActivation) == (fetched ? 0 : 1));
    if (fetched) continue;
    EXPECT(imported.Types() == Types{OperatorType::kConv2D});
    EXPECT(imported.At(0).op.activation == Activation::kRelu);
    EXPECT(imported.graph().Name(imported.At(0).output) == "relu");
  }
}

TEST(OnlyTheFirstActivationGoesIntoTheConvolution) {
  TestGraph graph({1, 8, 8, 3});
  graph.Convolution("conv", "image", 3, 3, 4);
  graph.Op("tanh", "Tanh", {"conv"});
  graph.Fetch(graph.Op("relu", "Relu", {"tanh"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FoldActivation) == 1);
  EXPECT(imported.At(0).op.activation == Activation::kTanh);
  EXPECT(imported.size() == 2);
}

TEST(ReluGoesIntoTheSeparableConvolutionsThatReadIt) {
  for (const bool others : {false, true}) {
    TestGraph graph({1, 8, 8, 3});
    graph.Op("relu", "Relu", {"image"});
    graph.Convolution("depthwise", "relu", 3, 3, 1, 1, "SAME",
                      "DepthwiseConv2dNative");
    graph.Fetch(graph.Convolution("pointwise", "depthwise", 1, 3, 4));
    if (others) graph.Fetch(graph.Convolution("other", "relu", 1, 3, 4));
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(FuseSepConv) == 1);
    EXPECT(imported.Apply(FoldPreActivation) == (others ? 0 : 1));
    if (others) continue;
    EXPECT(imported.Types() == Types{OperatorType::kSepConv});
    EXPECT(imported.At(0).op.pre_activation == Activation::kRelu);
    EXPECT(imported.graph().Name(imported.At(0).inputs[0]) == "image");
  }
}

}  // namespace
}  // namespace ios::tf
