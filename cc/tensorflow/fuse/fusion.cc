#include "cc/tensorflow/fuse/fusion.h"

#include <algorithm>
#include <utility>

#include "cc/tensorflow/fuse/operator_graph.h"
#include "cc/tensorflow/fuse/rules.h"

namespace ios::tf {
namespace {

void Apply(Rule rule, OperatorGraph& ops) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < ops.size(); ++i) {
      if (ops.IsAlive(i) && rule(ops, i)) changed = true;
    }
  }
}

}  // namespace

std::vector<ImportedOperator> Fuse(const AnalyzedGraph& analyzed,
                                   std::vector<ImportedOperator> operators) {
  OperatorGraph ops(analyzed, std::move(operators));
  for (const Rule rule : kRules) Apply(rule, ops);
  std::vector<ImportedOperator> result;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!ops.IsAlive(i) || ops[i].kind != ImportedOperator::Kind::kOperator) {
      continue;
    }
    ImportedOperator op = std::move(ops[i]);
    std::sort(op.nodes.begin(), op.nodes.end());
    op.nodes.erase(std::unique(op.nodes.begin(), op.nodes.end()),
                   op.nodes.end());
    result.push_back(std::move(op));
  }
  const GraphView& graph = analyzed.graph();
  // Sorts the operators by the positions of their output nodes, which is a
  // topological order.
  std::vector<int> position(graph.size());
  for (int k = 0; k < graph.size(); ++k) position[graph.order()[k]] = k;
  std::stable_sort(result.begin(), result.end(),
                   [&](const ImportedOperator& a, const ImportedOperator& b) {
                     return position[a.output.node] < position[b.output.node];
                   });
  return result;
}

}  // namespace ios::tf
