// Tests that schedules become attributes, and merges become larger
// convolutions.
#include "cc/tensorflow/convert/rewrite.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/ir/schedule.h"
#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/partition/blocks.h"
#include "tests/cc/graphs.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using Nodes = std::map<std::string, ::tensorflow::NodeDef>;

// A graph that concatenates two convolutions of the image.
class Branching {
 public:
  explicit Branching(Precision precision = {}) : graph_({1, 8, 8, 4}) {
    graph_.Convolution("a", "image", 1, 4, 2);
    graph_.Convolution("b", "image", 3, 4, 6);
    graph_.Fetch(graph_.Concat("end", {"a", "b"}));
    PartitionOptions options;
    options.precision = std::move(precision);
    partition_ = *PartitionGraph(graph_.item(), options);
    block_ =
        MakeBlock(partition_, partition_.regions[0].operators, "block").block;
  }

  const Block& block() const { return block_; }
  const ::tensorflow::GraphDef& original() const { return graph_.item().graph; }

  RewriteOptions With(const Schedule& schedule) const {
    RewriteOptions options;
    options.schedules[Signature(block_)] = ToJson(schedule);
    return options;
  }

  Nodes Rewritten(const RewriteOptions& options) const {
    ::tensorflow::GraphDef graph = original();
    EXPECT(Rewrite({&partition_}, options, &graph).ok());
    Nodes nodes;
    for (const ::tensorflow::NodeDef& node : graph.node()) {
      nodes[node.name()] = node;
    }
    return nodes;
  }

 private:
  TestGraph graph_;
  Partition partition_;
  Block block_;
};

int CountOf(const Nodes& nodes, const std::string& op) {
  int count = 0;
  for (const auto& [name, node] : nodes) count += node.op() == op;
  return count;
}

bool NothingAnnotated(const Nodes& nodes) {
  for (const auto& [name, node] : nodes) {
    if (IsAnnotated(node)) return false;
  }
  return true;
}

// Returns a schedule with a stage for the convolutions, which has this
// strategy, and a stage for the concat.
Schedule JoinedAfter(Strategy strategy) {
  if (strategy == Strategy::kConcurrent) {
    return {{{strategy, {{0}, {1}}}, {Strategy::kConcurrent, {{2}}}}};
  }
  const int64_t micro_batches = strategy == Strategy::kSplit ? 2 : 1;
  return {
      {{strategy, {{0, 1}}, micro_batches}, {Strategy::kConcurrent, {{2}}}}};
}

TEST(SchedulesBecomeAttributes) {
  const Branching graph;
  const Nodes nodes =
      graph.Rewritten(graph.With(JoinedAfter(Strategy::kConcurrent)));
  EXPECT(nodes.size() == static_cast<size_t>(graph.original().node_size()));
  std::map<std::string, StagePlace> places;
  for (const char* name : {"a", "b", "end"}) {
    const std::vector<StagePlace> found = Annotations(nodes.at(name));
    EXPECT(found.size() == 1);
    places[name] = found[0];
    EXPECT(found[0].load == Load{1} && !found[0].merge);
  }
  EXPECT(places["a"].stage == 0 && places["b"].stage == 0);
  EXPECT(places["a"].stream + places["b"].stream == 1);
  EXPECT(places["end"].stage == 1 && places["end"].stream == 0);
  EXPECT(!IsAnnotated(nodes.at("image")) && !IsAnnotated(nodes.at("a/filter")));
}

TEST(SplitsAndAlgorithmsAreNoted) {
  const Branching graph;
  Schedule schedule = JoinedAfter(Strategy::kSplit);
  const int large = graph.block().operators[0].kernel[0] == 3 ? 0 : 1;
  schedule.algorithms[large] = Algorithm::kWinograd2;
  const Nodes nodes = graph.Rewritten(graph.With(schedule));
  EXPECT(Annotations(nodes.at("a"))[0].micro_batches == 2);
  EXPECT(Annotations(nodes.at("b"))[0].micro_batches == 2);
  EXPECT(Annotations(nodes.at("end"))[0].micro_batches == 1);
  EXPECT(Annotations(nodes.at("a"))[0].algorithm == Algorithm::kDirect);
  EXPECT(Annotations(nodes.at("b"))[0].algorithm == Algorithm::kWinograd2);
}

TEST(MergesBecomeOneConvolution) {
  const Branching graph;
  const Nodes nodes =
      graph.Rewritten(graph.With(JoinedAfter(Strategy::kMerge)));
  EXPECT(CountOf(nodes, "Conv2D") == 1);
  for (const auto& [name, node] : nodes) {
    if (node.op() != "Conv2D") continue;
    EXPECT(node.input(0) == "image");
    const std::vector<StagePlace> places = Annotations(node);
    EXPECT(places.size() == 1 && places[0].stage == 0 && !places[0].merge);
    // The parts have kernels of 1 and 3 cells, and 2 and 6 filters.
    const auto filter = nodes.find(node.input(1));
    ::tensorflow::Tensor value;
    EXPECT(filter != nodes.end() &&
           value.FromProto(filter->second.attr().at("value").tensor()));
    EXPECT(value.shape() == ::tensorflow::TensorShape({3, 3, 4, 8}));
  }
  EXPECT(Annotations(nodes.at("end"))[0].stage == 1);
}

TEST(MergesMayBeLeftToTheEngine) {
  const Branching graph;
  RewriteOptions options = graph.With(JoinedAfter(Strategy::kMerge));
  options.materialise_merges = false;
  const Nodes nodes = graph.Rewritten(options);
  EXPECT(CountOf(nodes, "Conv2D") == 2);
  EXPECT(Annotations(nodes.at("a"))[0].merge);
  EXPECT(Annotations(nodes.at("b"))[0].merge);
}

TEST(BlocksWithoutAScheduleAreLeft) {
  const Branching graph;
  EXPECT(NothingAnnotated(graph.Rewritten(RewriteOptions())));
  // This schedule is not valid: the concat runs before its inputs.
  const Schedule wrong = {
      {{Strategy::kConcurrent, {{2}}}, {Strategy::kConcurrent, {{0}, {1}}}}};
  EXPECT(NothingAnnotated(graph.Rewritten(graph.With(wrong))));
  RewriteOptions options = graph.With(JoinedAfter(Strategy::kConcurrent));
  options.left = {0};
  EXPECT(NothingAnnotated(graph.Rewritten(options)));
}

TEST(ThePrecisionIsNoted) {
  for (const bool is_narrow : {false, true}) {
    const auto dtype = is_narrow ? DataType::kBFloat16 : DataType::kFloat32;
    const std::optional<DataType> expected =
        is_narrow ? std::make_optional(dtype) : std::nullopt;
    const Branching graph({dtype, {}});
    for (const Strategy strategy : {Strategy::kConcurrent, Strategy::kMerge}) {
      const Nodes nodes = graph.Rewritten(graph.With(JoinedAfter(strategy)));
      for (const auto& [name, node] : nodes) {
        EXPECT(AnnotatedPrecision(node) ==
               (IsAnnotated(node) ? expected : std::nullopt));
        // TensorFlow alone still computes in float32.
        EXPECT(node.op() != "Conv2D" ||
               node.attr().at("T").type() == ::tensorflow::DT_FLOAT);
      }
    }
  }
}

TEST(TheNotedPrecisionIsUsedIfTheProcessorHasIt) {
  const Branching graph({DataType::kBFloat16, {}});
  ::tensorflow::grappler::GrapplerItem item;
  for (const auto& [name, node] :
       graph.Rewritten(graph.With(JoinedAfter(Strategy::kConcurrent)))) {
    *item.graph.add_node() = node;
  }
  item.fetch = {"end"};
  for (const bool computes : {false, true}) {
    SetComputesBFloat16(computes);
    const absl::StatusOr<Partition> partition =
        PartitionGraph(item, PartitionOptions());
    EXPECT(partition.ok() && partition->regions.size() == 1);
    for (const ImportedOperator& op : partition->operators) {
      EXPECT(op.dtype == (computes ? DataType::kBFloat16 : DataType::kFloat32));
    }
  }
}

}  // namespace
}  // namespace ios::tf
