// Tests that annotated regions of a TensorFlow graph become IosRegion nodes.
#include "cc/tensorflow/plugin/lower.h"

#include <map>
#include <string>
#include <vector>

#include "cc/tensorflow/graph/annotations.h"
#include "cc/tensorflow/ops/program_json.h"
#include "cc/tensorflow/partition/regions.h"
#include "cc/tensorflow/plugin/annotated_schedules.h"
#include "tensorflow/core/framework/node_def_builder.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tests/cc/testing.h"

namespace ios::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::NodeDefBuilder;
using ::tensorflow::Tensor;

class Graph {
 public:
  Graph() {
    Add(NodeDefBuilder("image", "Placeholder")
            .Attr("dtype", tensorflow::DT_FLOAT)
            .Attr("shape", tensorflow::PartialTensorShape({1, 8, 8, 3})));
  }

  // Adds a 3x3 convolution with a Relu. `stage` is its stage in the schedule;
  // -1 means that it has no schedule.
  void AddConvolution(const std::string& name, const std::string& input,
                      int channels, int filters, int64_t stage) {
    std::vector<StagePlace> places;
    if (stage >= 0) places.push_back({Load{1}, stage});
    AddConvolution(name, input, channels, filters, places);
  }
  void AddConvolution(const std::string& name, const std::string& input,
                      int channels, int filters,
                      const std::vector<StagePlace>& places) {
    Tensor filter(tensorflow::DT_FLOAT, {3, 3, channels, filters});
    for (int i = 0; i < filter.NumElements(); ++i) {
      filter.flat<float>()(i) = 0.5f * i;
    }
    Add(NodeDefBuilder(name + "/filter", "Const")
            .Attr("dtype", tensorflow::DT_FLOAT)
            .Attr("value", filter));
    NodeDef* conv = Add(NodeDefBuilder(name + "/conv", "Conv2D")
                            .Input(input, 0, tensorflow::DT_FLOAT)
                            .Input(name + "/filter", 0, tensorflow::DT_FLOAT)
                            .Attr("strides", std::vector<int>{1, 1, 1, 1})
                            .Attr("padding", "SAME"));
    NodeDef* relu = Add(NodeDefBuilder(name, "Relu")
                            .Input(name + "/conv", 0, tensorflow::DT_FLOAT));
    for (NodeDef* node : {conv, relu}) {
      if (!places.empty()) Annotate(places, node);
    }
  }

  void AddOutput(const std::string& input) {
    Add(NodeDefBuilder("output", "Identity")
            .Input(input, 0, tensorflow::DT_FLOAT));
    item_.fetch = {"output"};
    item_.feed = {{"image", Tensor(tensorflow::DT_FLOAT, {1, 8, 8, 3})}};
  }

  NodeDef* Add(NodeDefBuilder builder) {
    NodeDef* node = item_.graph.add_node();
    EXPECT(builder.Finalize(node).ok());
    return node;
  }

  // Returns the number of regions, and the lowered graph's nodes in `nodes`.
  int Lowered(std::map<std::string, NodeDef>* nodes) {
    const absl::StatusOr<Partition> partition =
        PartitionGraph(item_, PartitionOptions());
    EXPECT(partition.ok());
    if (!partition.ok()) return -1;
    tensorflow::GraphDef graph = item_.graph;
    const absl::StatusOr<int> regions =
        Lower(*partition, AnnotatedSchedules(*partition), &graph);
    EXPECT(regions.ok());
    for (const NodeDef& node : graph.node()) (*nodes)[node.name()] = node;
    return regions.ok() ? *regions : -1;
  }

 private:
  tensorflow::grappler::GrapplerItem item_;
};

std::vector<const NodeDef*> OfType(const std::map<std::string, NodeDef>& nodes,
                                   const std::string& op) {
  std::vector<const NodeDef*> found;
  for (const auto& [name, node] : nodes) {
    if (node.op() == op) found.push_back(&node);
  }
  return found;
}

TEST(ScheduleInAttributesBecomesTheRegions) {
  Graph graph;
  graph.AddConvolution("left", "image", 3, 4, 0);
  graph.AddConvolution("right", "image", 3, 4, 0);
  graph.AddConvolution("last", "left", 4, 2, 1);
  graph.Add(NodeDefBuilder("sum", "AddV2")
                .Input("left", 0, tensorflow::DT_FLOAT)
                .Input("right", 0, tensorflow::DT_FLOAT));
  graph.AddConvolution("end", "sum", 4, 2, 3);
  graph.Add(NodeDefBuilder("both", "AddV2")
                .Input("last", 0, tensorflow::DT_FLOAT)
                .Input("end", 0, tensorflow::DT_FLOAT));
  graph.AddOutput("both");
  std::map<std::string, NodeDef> nodes;
  EXPECT(graph.Lowered(&nodes) == 1);
  EXPECT(OfType(nodes, "Conv2D").empty() && OfType(nodes, "AddV2").empty());
  const std::vector<const NodeDef*> regions = OfType(nodes, "IosRegion");
  EXPECT(regions.size() == 1);
  if (regions.size() != 1) return;
  EXPECT(nodes["output"].input(0) == regions[0]->name());
  EXPECT(regions[0]->input(0) == "image");
  const StatusOr<RegionProgram> program =
      RegionProgramFromJson(regions[0]->attr().at("program").s());
  EXPECT(program.ok());
  EXPECT(program->schedules.size() == 1);
  const Schedule& schedule = program->schedules.begin()->second;
  EXPECT(Validate(schedule, program->block).ok());
  // The first stage of the schedule has two convolutions, each in its own
  // group.
  const Stage& first = schedule.stages[0];
  EXPECT(first.groups.size() == 2);
  for (const std::vector<int>& group : first.groups) {
    EXPECT(group.size() == 1 &&
           program->block.operators[group[0]].type == OperatorType::kConv2D &&
           program->block.operators[group[0]].activation == Activation::kRelu);
  }
}

TEST(EveryBatchSizeHasItsSchedule) {
  Graph graph;
  // Each place lists the batch size, the stage, the group, and whether the
  // stage is merged.
  graph.AddConvolution("left", "image", 3, 4, {{{1}, 0, 0, true}, {{8}, 0, 0}});
  graph.AddConvolution("right", "image", 3, 4,
                       {{{1}, 0, 0, true}, {{8}, 1, 0}});
  graph.Add(NodeDefBuilder("sum", "AddV2")
                .Input("left", 0, tensorflow::DT_FLOAT)
                .Input("right", 0, tensorflow::DT_FLOAT));
  graph.AddConvolution("end", "sum", 4, 2, {{{1}, 1, 0}, {{8}, 2, 0}});
  graph.AddOutput("end");
  std::map<std::string, NodeDef> nodes;
  EXPECT(graph.Lowered(&nodes) == 1);
  const std::vector<const NodeDef*> regions = OfType(nodes, "IosRegion");
  EXPECT(regions.size() == 1);
  if (regions.size() != 1) return;
  const StatusOr<RegionProgram> program =
      RegionProgramFromJson(regions[0]->attr().at("program").s());
  EXPECT(program.ok() && program->schedules.size() == 2);
  if (!program.ok() || program->schedules.size() != 2) return;
  const std::vector<Stage>& one = program->schedules.at({1}).stages;
  EXPECT(one[0].strategy == Strategy::kMerge && one[0].groups[0].size() == 2);
  EXPECT(one[1].strategy == Strategy::kConcurrent);
  const std::vector<Stage>& eight = program->schedules.at({8}).stages;
  EXPECT(eight.size() == one.size() + 1);
  for (const Stage& stage : eight) {
    EXPECT(stage.strategy == Strategy::kConcurrent);
    EXPECT(stage.groups.size() == 1);
  }
}

TEST(WeightsGoAlong) {
  Graph graph;
  graph.AddConvolution("only", "image", 3, 4, 0);
  graph.AddOutput("only");
  std::map<std::string, NodeDef> nodes;
  EXPECT(graph.Lowered(&nodes) == 1);
  const std::vector<const NodeDef*> regions = OfType(nodes, "IosRegion");
  EXPECT(regions.size() == 1);
  if (regions.size() != 1) return;
  const auto& weights = regions[0]->attr().at("weights").list();
  EXPECT(weights.tensor_size() == 1);
  Tensor filter;
  EXPECT(filter.FromProto(weights.tensor(0)));
  EXPECT(filter.NumElements() == 3 * 3 * 3 * 4);
  for (int i = 0; i < filter.NumElements(); ++i) {
    EXPECT(filter.flat<float>()(i) == 0.5f * i);
  }
}

TEST(GraphsWithoutScheduleStay) {
  Graph graph;
  graph.AddConvolution("only", "image", 3, 4, -1);
  graph.AddOutput("only");
  std::map<std::string, NodeDef> nodes;
  EXPECT(graph.Lowered(&nodes) == 0);
  EXPECT(OfType(nodes, "Conv2D").size() == 1);
  EXPECT(OfType(nodes, "IosRegion").empty());
}

}  // namespace
}  // namespace ios::tf
