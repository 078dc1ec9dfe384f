#include "cc/tensorflow/partition/left_nodes.h"

#include <map>
#include <set>
#include <string>

namespace ios::tf {
namespace {

// Returns true for nodes that compute nothing.
bool HasNoWork(const GraphView& graph, int i) {
  static const auto* const kTypes =
      new std::set<std::string>{"Placeholder", "PlaceholderWithDefault",
                                "_Arg",        "_Retval",
                                "NoOp",        "Identity",
                                "VarHandleOp"};
  return graph.constant(i) || graph.variable(i) || graph.passthrough(i) ||
         !graph.live(i) || kTypes->count(graph.node(i).op()) > 0;
}

std::set<int> CoveredBy(const Partition& partition,
                        const std::vector<int>& operators) {
  std::set<int> covered;
  for (int k : operators) {
    const std::vector<int>& nodes = partition.operators[k].nodes;
    covered.insert(nodes.begin(), nodes.end());
  }
  return covered;
}

// Returns why a node is left to TensorFlow that no handler has refused.
Refusal WithoutRefusal(const GraphView& graph, int i, bool is_operator) {
  if (graph.conditional(i)) {
    return {i, Reason::kConditional,
            "the node is inside of a branch or a loop of the graph"};
  }
  if (graph.fed(i)) {
    return {i, Reason::kFed, "the caller can provide the node's result"};
  }
  if (is_operator) {
    return {i, Reason::kOutsideRegions,
            "the operator is not in a region with a convolution"};
  }
  if (IsKnownType(graph.node(i).op())) {
    return {i, Reason::kPartOfOperator,
            "the engine computes such a node only as a part of an operator"};
  }
  return {i, Reason::kType, "the engine has no operator of this type"};
}

}  // namespace

std::vector<Refusal> LeftNodes(const Partition& partition) {
  const GraphView& graph = partition.graph();
  std::map<int, const Refusal*> refused;
  for (const Refusal& refusal : partition.refusals) {
    refused.try_emplace(refusal.node, &refusal);
  }
  std::set<int> in_regions, in_operators;
  for (const Region& region : partition.regions) {
    in_regions.merge(CoveredBy(partition, region.operators));
  }
  for (const ImportedOperator& op : partition.operators) {
    in_operators.insert(op.nodes.begin(), op.nodes.end());
  }
  std::vector<Refusal> left;
  for (int i = 0; i < graph.size(); ++i) {
    if (HasNoWork(graph, i) || in_regions.count(i) > 0) continue;
    const auto refusal = refused.find(i);
    left.push_back(refusal != refused.end()
                       ? *refusal->second
                       : WithoutRefusal(graph, i, in_operators.count(i) > 0));
  }
  return left;
}

}  // namespace ios::tf
