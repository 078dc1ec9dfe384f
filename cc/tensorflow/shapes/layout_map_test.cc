// Tests which tensors have their channels first.
#include "cc/tensorflow/shapes/layout_map.h"

#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

std::string Ordered(TestGraph* graph, const std::string& name,
                    const std::string& input,
                    const std::vector<int32_t>& order) {
  const std::string permutation = graph->Integers(name + "/order", {4}, order);
  graph->Add(graph->Builder(name, "Transpose",
                            {{input}, {permutation, ::tensorflow::DT_INT32}}));
  return name;
}

std::string ChannelsFirstPool(TestGraph* graph, const std::string& name,
                              const std::string& input) {
  graph->Add(graph->Builder(name, "MaxPool", {{input}})
                 .Attr("ksize", TestGraph::Sizes{1, 1, 2, 2})
                 .Attr("strides", TestGraph::Sizes{1, 1, 2, 2})
                 .Attr("padding", "VALID")
                 .Attr("data_format", "NCHW"));
  return name;
}

std::set<std::string> ChannelsFirst(const TestGraph& graph) {
  const ImportedGraph imported(graph);
  std::set<std::string> names;
  for (const char* name : {"image", "first", "relu", "last", "pool", "end"}) {
    const int node = imported.graph().Find(name);
    if (node >= 0 && imported.layouts().channels_first({node, 0})) {
      names.insert(name);
    }
  }
  return names;
}

TEST(FormatsSayIt) {
  TestGraph graph({1, 4, 8, 8});
  graph.Op("relu", "Relu", {"image"});
  ChannelsFirstPool(&graph, "pool", "relu");
  graph.Fetch(graph.Op("end", "Tanh", {"pool"}));
  EXPECT(ChannelsFirst(graph) ==
         (std::set<std::string>{"image", "relu", "pool", "end"}));
}

TEST(TransposesLeadFromOneToTheOther) {
  TestGraph graph({1, 8, 8, 4});
  Ordered(&graph, "first", "image", {0, 3, 1, 2});
  graph.Op("relu", "Relu", {"first"});
  ChannelsFirstPool(&graph, "pool", "relu");
  graph.Fetch(Ordered(&graph, "last", "pool", {0, 2, 3, 1}));
  EXPECT(ChannelsFirst(graph) ==
         (std::set<std::string>{"first", "relu", "pool"}));
}

TEST(NothingSaysItChannelsAreLast) {
  TestGraph graph({1, 8, 8, 4});
  Ordered(&graph, "first", "image", {0, 3, 1, 2});
  graph.Fetch(graph.Op("relu", "Relu", {"first"}));
  EXPECT(ChannelsFirst(graph).empty());
}

TEST(OrdersOfDimensions) {
  const std::pair<std::vector<int32_t>, Permutation> kOrders[] = {
      {{0, 1, 2, 3}, Permutation::kNone},
      {{0, 3, 1, 2}, Permutation::kToChannelsFirst},
      {{0, 2, 3, 1}, Permutation::kToChannelsLast},
      {{0, 2, 1, 3}, Permutation::kOther},
      {{3, 0, 1, 2}, Permutation::kOther},
  };
  for (const auto& [order, permutation] : kOrders) {
    TestGraph graph({1, 8, 8, 4});
    graph.Fetch(Ordered(&graph, "last", "image", order));
    ImportedGraph imported(graph);
    EXPECT(PermutationOf(&imported.graph(), imported.graph().Find("last")) ==
           permutation);
  }
}

}  // namespace
}  // namespace ios::tf
