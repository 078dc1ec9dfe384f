// Tests each rule of layout_rules.cc.
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using Types = std::vector<OperatorType>;
using Kind = ImportedOperator::Kind;

std::string Transposed(TestGraph* graph, const std::string& name,
                       const std::string& input,
                       const std::vector<int32_t>& order) {
  const std::string permutation = graph->Integers(name + "/order", {4}, order);
  graph->Add(graph->Builder(name, "Transpose",
                            {{input}, {permutation, ::tensorflow::DT_INT32}}));
  return name;
}

TEST(OperatorsReadWhatWasTransposed) {
  for (const bool fetched : {false, true}) {
    TestGraph graph({1, 3, 8, 9});
    Transposed(&graph, "last", "image", {0, 2, 3, 1});
    graph.Fetch(graph.Convolution("conv", "last", 3, 3, 4));
    if (fetched) graph.Fetch("last");
    ImportedGraph imported(graph);
    EXPECT(imported.size() == 2 && imported.At(0).kind == Kind::kLayout);
    EXPECT(imported.Apply(AbsorbLayout) == 1);
    // If the Transpose is fetched, it stays a TensorFlow node.
    EXPECT(imported.Types() == Types{OperatorType::kConv2D});
    EXPECT(imported.graph().Name(imported.At(0).inputs[0]) == "image");
    const std::vector<int>& nodes = imported.At(0).nodes;
    const int node = imported.graph().Find("last");
    EXPECT((std::count(nodes.begin(), nodes.end(), node) == 0) == fetched);
  }
}

TEST(LastOfTheTransposesInARowDecides) {
  TestGraph graph({1, 3, 8, 9});
  Transposed(&graph, "last", "image", {0, 2, 3, 1});
  Transposed(&graph, "back", "last", {0, 3, 1, 2});
  graph.Fetch("back");
  graph.Fetch(graph.Convolution("conv", "last", 3, 3, 4));
  ImportedGraph imported(graph);
  EXPECT(imported.size() == 3);
  EXPECT(imported.Apply(AbsorbLayout) == 1);
  EXPECT(imported.Apply(AbsorbLayout) == 1);
  EXPECT(imported.Types() == Types{OperatorType::kConv2D});
  // The second Transpose is fetched, so both Transposes stay TensorFlow nodes.
  const int conv = imported.graph().Find("conv");
  EXPECT(imported.At(0).nodes == std::vector<int>{conv});
}

TEST(CastsAroundANormAreItsOwn) {
  using ::tensorflow::DT_FLOAT;
  using ::tensorflow::DT_HALF;
  TestGraph graph({1, 8, 8, 3});
  graph.Add(graph.Builder("half", "Cast", {{"image"}})
                .Attr("SrcT", DT_FLOAT)
                .Attr("DstT", DT_HALF));
  graph.Add(graph.Builder("relu", "Relu", {{"half", DT_HALF}}));
  graph.Add(graph.Builder("wide", "Cast", {{"relu", DT_HALF}})
                .Attr("SrcT", DT_HALF)
                .Attr("DstT", DT_FLOAT));
  graph.Op("scaled", "Mul", {"wide", graph.Floats("by", {1, 1, 1, 3})});
  graph.Add(graph.Builder("narrow", "Cast", {{"scaled"}})
                .Attr("SrcT", DT_FLOAT)
                .Attr("DstT", DT_HALF));
  graph.Add(graph.Builder("end", "Relu", {{"narrow", DT_HALF}}));
  graph.Fetch("end");
  DevicePlacement placement;
  placement.unplaced = kGpu;  // supports float16
  ImportedGraph imported(graph, placement);
  EXPECT(imported.Apply(AbsorbCasts) == 1);
  int scales = 0;
  for (int k = 0; k < imported.size(); ++k) {
    const ImportedOperator& op = imported.At(k);
    if (op.op.type != OperatorType::kScale) continue;
    ++scales;
    EXPECT(op.dtype == DataType::kFloat16);
    EXPECT(imported.graph().Name(op.inputs[0]) == "relu");
    EXPECT(imported.graph().Name(op.output) == "narrow");
  }
  EXPECT(scales == 1);
}

TEST(WhatNobodyReadsGoes) {
  TestGraph graph({1, 8, 8, 3});
  graph.Op("relu", "Relu", {"image"});
  graph.Fetch(graph.Op("tanh", "Tanh", {"relu"}));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(DropUnread) == 0);
  imported.operators().SetInputs(1, {imported.At(0).inputs[0]});
  EXPECT(imported.Apply(DropUnread) == 1);
  EXPECT(imported.size() == 1 && imported.At(0).op.name == "tanh");
}

TEST(ScaleByOneGoes) {
  for (const float factor : {1.0f, 2.0f}) {
    TestGraph graph({1, 8, 8, 3});
    graph.Convolution("conv", "image", 1, 3, 2);
    const std::string by = graph.Floats("by", {1, 1, 1, 2}, {1.0f, factor});
    graph.Fetch(graph.Op("scaled", "Mul", {"conv", by}));
    ImportedGraph imported(graph);
    EXPECT(imported.Apply(DropIdentityScale) == (factor == 1.0f ? 1 : 0));
    const ImportedOperator& last = imported.At(imported.size() - 1);
    EXPECT(imported.graph().Name(last.output) == "scaled");
  }
}

TEST(ReferenceForASizeIsAnEarlierTensorAsLarge) {
  TestGraph graph({1, 8, 8, 3});
  graph.Pool("pool", "image", 2, 2);
  graph.Convolution("conv", "image", 3, 3, 4);
  graph.Fetch(graph.Op("relu", "Relu", {"conv"}));
  ImportedGraph imported(graph);
  OperatorGraph& ops = imported.operators();
  // Turn the pool into a resize to the size of the convolution's output.
  int pool = -1;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops.Is(i, OperatorType::kPool)) pool = i;
  }
  EXPECT(pool >= 0);
  const TensorRef conv = {imported.graph().Find("conv"), 0};
  const TensorRef image = {imported.graph().Find("image"), 0};
  ops[pool].op.type = OperatorType::kResize;
  ops[pool].op.size_from_last_input = true;
  ops.SetInputs(pool, {image, conv});
  EXPECT(MoveReference(ops, pool));
  EXPECT(ops[pool].inputs[1] == image);
  EXPECT(!MoveReference(ops, pool));  // nothing computes the image
}

}  // namespace
}  // namespace ios::tf
