// Tests that tensors are replaced and that unread nodes are removed.
#include "cc/tensorflow/graph/graph_editor.h"

#include <map>
#include <utility>

#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;

// A graph that is edited, and its nodes after the editing.
struct Edited {
  explicit Edited(TestGraph edited)
      : graph(std::move(edited)),
        imported(graph),
        graph_def(graph.item().graph),
        editor(imported.graph(), &graph_def) {}

  TensorRef Tensor(const std::string& name) {
    return {imported.graph().Find(name), 0};
  }
  std::map<std::string, NodeDef> Finish() {
    editor.Finish();
    std::map<std::string, NodeDef> nodes;
    for (const NodeDef& node : graph_def.node()) nodes[node.name()] = node;
    return nodes;
  }

  const TestGraph graph;
  ImportedGraph imported;
  ::tensorflow::GraphDef graph_def;
  GraphEditor editor;
};

TestGraph Chain() {
  TestGraph graph({1, 8, 8, 3});
  graph.Convolution("conv", "image", 1, 3, 3);
  graph.Op("relu", "Relu", {"conv"});
  graph.Fetch(graph.Op("end", "Tanh", {"relu"}));
  return graph;
}

TEST(ReadersReadTheReplacement) {
  Edited edited(Chain());
  edited.editor.AddNode("new", "Elu", "")->add_input("image");
  edited.editor.Replace(edited.Tensor("relu"), "new");
  EXPECT(edited.editor.Input(edited.Tensor("relu")) == "new");
  EXPECT(edited.editor.Input(edited.Tensor("conv")) == "conv");
  const std::map<std::string, NodeDef> nodes = edited.Finish();
  EXPECT(nodes.at("end").input(0) == "new");
  // The replaced nodes are removed, and so are the weights that only these
  // nodes read.
  for (const char* name : {"conv", "conv/filter", "relu"}) {
    EXPECT(nodes.count(name) == 0);
  }
  EXPECT(nodes.size() == 3);
}

TEST(WhatIsAskedForKeepsItsName) {
  Edited edited(Chain());
  edited.editor.AddNode("new", "Elu", "")->add_input("image");
  edited.editor.Replace(edited.Tensor("end"), "new:1");
  const std::map<std::string, NodeDef> nodes = edited.Finish();
  EXPECT(nodes.at("end").op() == "Identity");
  EXPECT(nodes.at("end").input(0) == "new:1");
  EXPECT(nodes.count("conv") == 0);
}

TEST(PlaceholdersStay) {
  Edited edited(Chain());
  edited.editor.AddNode("new", "Elu", "")->add_input("other");
  edited.editor.AddNode("other", "Placeholder", "");
  edited.editor.Replace(edited.Tensor("relu"), "new");
  EXPECT(edited.Finish().count("image") == 1);
}

TEST(NamesAreNobodyElses) {
  Edited edited(Chain());
  const std::string first = edited.editor.UniqueName("relu");
  const std::string second = edited.editor.UniqueName("relu");
  EXPECT(first != "relu" && second != "relu" && first != second);
  EXPECT(first.rfind("relu", 0) == 0);
  EXPECT(edited.editor.UniqueName("fresh") == "fresh");
}

TEST(LayoutsOfATensor) {
  Edited edited(Chain());
  const auto input = [&](Layout from, Layout to) {
    return edited.editor.InLayout(edited.editor.UniqueName("moved"), "relu",
                                  from, to, ::tensorflow::DT_FLOAT, "");
  };
  EXPECT(input(Layout::kChannelsLast, Layout::kChannelsLast) == "relu");
  const std::string first =
      input(Layout::kChannelsLast, Layout::kChannelsFirst);
  const std::string sequence = input(Layout::kChannelsLast, Layout::kSequence);
  std::map<std::string, std::string> ops;
  for (const NodeDef& node : edited.graph_def.node()) {
    ops[node.name()] = node.op();
  }
  EXPECT(ops[first] == "Transpose" && ops[sequence] == "Squeeze");
}

}  // namespace
}  // namespace ios::tf
