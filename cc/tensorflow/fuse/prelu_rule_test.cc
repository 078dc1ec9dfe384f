// Tests which compositions the PReLU rule replaces.
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

const std::vector<float> kSlopes = {0.25f, -0.5f, 2.0f};

// Adds nodes that compute PReLU as Keras writes it: relu(x) - slopes *
// relu(-x).
std::string KerasPRelu(TestGraph* graph, const std::vector<int64_t>& shape,
                       const std::vector<float>& slopes,
                       const std::string& x = "image") {
  std::vector<float> factors;
  for (float slope : slopes) factors.push_back(-slope);
  graph->Op("above", "Relu", {x});
  graph->Op("opposite", "Neg", {x});
  graph->Op("below", "Relu", {"opposite"});
  graph->Op("scaled", "Mul", {"below", graph->Floats("by", shape, factors)});
  return graph->Op("y", "AddV2", {"above", "scaled"});
}

void ExpectPRelu(const TestGraph& graph, const Shape& shape,
                 const std::vector<float>& slopes) {
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FusePRelu) == 1 && imported.size() == 1);
  const ImportedOperator& found = imported.At(0);
  EXPECT(found.op.type == OperatorType::kBinary);
  EXPECT(found.op.function == BinaryFunction::kPRelu);
  EXPECT(found.op.operand == shape);
  EXPECT(found.weights.size() == 1 && found.weights[0].values == slopes);
  EXPECT(imported.graph().Name(found.inputs[0]) == "image");
  EXPECT(imported.graph().Name(found.output) == "y");
}

TEST(SlopesOfChannels) {
  TestGraph graph({1, 2, 2, 3});
  graph.Fetch(KerasPRelu(&graph, {3}, kSlopes));
  ExpectPRelu(graph, {1, 1, 1, 3}, kSlopes);
}

TEST(SlopesOfCells) {
  std::vector<float> slopes;
  for (int k = 0; k < 12; ++k) slopes.push_back(0.125f * k);
  TestGraph graph({1, 2, 2, 3});
  graph.Fetch(KerasPRelu(&graph, {2, 2, 3}, slopes));
  ExpectPRelu(graph, {1, 2, 2, 3}, slopes);
}

TEST(SlopesOfARow) {
  TestGraph graph({2, 3});
  graph.Fetch(KerasPRelu(&graph, {3}, kSlopes));
  ExpectPRelu(graph, {1, 3}, kSlopes);
}

TEST(SlopesOfWhatIsSelected) {
  TestGraph graph({1, 2, 2, 3});
  graph.Op("above", "Greater", {"image", graph.Floats("zero", {}, {0})});
  graph.Op("scaled", "Mul", {"image", graph.Floats("by", {3}, kSlopes)});
  graph.Add(
      graph.Builder("y", "SelectV2",
                    {{"above", ::tensorflow::DT_BOOL}, {"image"}, {"scaled"}}));
  graph.Fetch("y");
  ExpectPRelu(graph, {1, 1, 1, 3}, kSlopes);
}

TEST(OneSlopeForAllIsNoPRelu) {
  TestGraph graph({1, 2, 2, 1});
  graph.Fetch(KerasPRelu(&graph, {1}, {0.25f}));
  EXPECT(ImportedGraph(graph).Apply(FusePRelu) == 0);
}

TEST(PartThatIsAskedForStays) {
  TestGraph graph({1, 2, 2, 3});
  graph.Fetch(KerasPRelu(&graph, {3}, kSlopes));
  graph.Fetch("scaled");
  EXPECT(ImportedGraph(graph).Apply(FusePRelu) == 0);
}

TEST(AdditionBeforeItStays) {
  TestGraph graph({1, 2, 2, 3});
  graph.Op("shifted", "AddV2", {"image", graph.Floats("one", {3}, {1, 1, 1})});
  graph.Fetch(KerasPRelu(&graph, {3}, kSlopes, "shifted"));
  ImportedGraph imported(graph);
  EXPECT(imported.Apply(FusePRelu) == 1 && imported.size() == 2);
  EXPECT(imported.At(0).op.type == OperatorType::kScale);
  EXPECT(imported.At(1).op.function == BinaryFunction::kPRelu);
  EXPECT(imported.graph().Name(imported.At(1).inputs[0]) == "shifted");
}

// x - factors * (x - |x|) is PReLU for finite numbers, but NaN for infinity.
TEST(CompositionThatDiffersAtInfinityStays) {
  TestGraph graph({1, 2, 2, 3});
  graph.Op("size", "Abs", {"image"});
  graph.Op("twice", "Sub", {"image", "size"});
  graph.Op("scaled", "Mul", {"twice", graph.Floats("by", {3}, kSlopes)});
  graph.Fetch(graph.Op("y", "Sub", {"image", "scaled"}));
  EXPECT(ImportedGraph(graph).Apply(FusePRelu) == 0);
}

}  // namespace
}  // namespace ios::tf
