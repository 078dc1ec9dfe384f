#include "cc/tensorflow/convert/collect.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cc/core/document.h"
#include "cc/core/ir/problem.h"
#include "cc/tensorflow/partition/blocks.h"
#include "cc/tensorflow/partition/left_nodes.h"
#include "cc/tensorflow/status_util.h"

namespace ios::tf {
namespace {

using nlohmann::json;

// Returns the nodes that are left to TensorFlow as JSON.
json LeftToTensorFlow(const Partition& partition) {
  const GraphView& graph = partition.graph();
  json left = json::array();
  for (const Refusal& refusal : LeftNodes(partition)) {
    left.push_back({{"node", OperatorName(graph, refusal.node)},
                    {"op", graph.node(refusal.node).op()},
                    {"code", ReasonCode(refusal.reason)},
                    {"text", refusal.text}});
  }
  return left;
}

}  // namespace

absl::StatusOr<std::string> Collect(const Partition& partition) {
  json problems = json::array(), blocks = json::array();
  std::set<std::string> signatures;
  std::map<std::string, int> types;
  for (size_t r = 0; r < partition.regions.size(); ++r) {
    const Region& region = partition.regions[r];
    for (const std::vector<int>& operators : region.blocks) {
      json names = json::array();
      for (int k : operators) {
        const ImportedOperator& op = partition.operators[k];
        names.push_back(op.op.name);
        ++types[ToString(op.op.type)];
      }
      const PartitionBlock made = MakeBlock(
          partition, operators, partition.operators[operators[0]].op.name);
      const std::string signature = Signature(made.block);
      blocks.push_back({{"signature", signature},
                        {"names", std::move(names)},
                        {"region", r}});
      if (!signatures.insert(signature).second) continue;
      StatusOr<std::string> problem = ProblemJson(made.block);
      if (!problem.ok()) return ToAbsl(problem.status());
      problems.push_back(
          json::parse(*problem, nullptr, /*allow_exceptions=*/false));
    }
  }
  json sizes;  // null: the requested sizes are used
  if (partition.shapes().fitting_sizes()) {
    sizes = *partition.shapes().fitting_sizes();
  }
  std::set<std::array<int64_t, 3>> bounds;
  for (const ShapeSample& sample : partition.shapes().bound_samples()) {
    bounds.insert({sample.batch, sample.sizes[0], sample.sizes[1]});
  }
  const json result = {{"version", kFormatVersion},
                       {"problems", std::move(problems)},
                       {"blocks", std::move(blocks)},
                       {"report",
                        {{"operators", types},
                         {"regions", partition.regions.size()},
                         {"nodes", partition.graph().size()},
                         {"image_size", std::move(sizes)},
                         {"bound_sizes", bounds},
                         {"left_to_tensorflow", LeftToTensorFlow(partition)}}}};
  // Node names may be invalid UTF-8, which dump() replaces instead of throwing.
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ios::tf
